"""The model of the groups' log gets what the partition has committed."""

from __future__ import annotations

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record
from barnabas.coordinator.entry import Entry, encode
from barnabas.protocol.records.group import OffsetCommitKey, OffsetCommitValue
from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.replicated_cluster.groups import GroupBook
from barnabas.testing.simulation.replicated_cluster.history import PartitionHistory

COMMIT = Entry(
    OffsetCommitKey(group="g", topic="t", partition=0),
    OffsetCommitValue(offset=7, metadata="", commit_timestamp=0),
    3,
)


def committed(book: GroupBook, *contents: bytes) -> None:
    history = PartitionHistory("__consumer_offsets", Uuid.from_words(1, 2), 0)
    history.on_commit = book.committed_batch
    batches = history.batches_in(b"".join(contents), 0)
    history.expose(batches, batches[-1].next_offset, 0)


def rows(**fields: object) -> bytes:
    key, value = encode(COMMIT)
    return bytes(build([Record(0, 0, key, value)], leader_epoch=0, **fields))  # type: ignore[arg-type]


def test_a_commit_counts_when_it_is_committed() -> None:
    book = GroupBook()
    with pytest.raises(InvariantError, match="was reported as committed"):
        book.check_committed("g", {("t", 0): 7})
    committed(book, rows())
    book.check_committed("g", {("t", 0): 7})
    book.check_fetched("g", {("t", 0): 7}, book.position, stable=True)
    with pytest.raises(InvariantError, match="8 was returned"):
        book.check_fetched("g", {("t", 0): 8}, book.position, stable=True)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_commit_in_a_transaction_counts_with_its_marker(is_commit: bool) -> None:
    book = GroupBook()
    marker = build_marker(
        EndTransactionMarker(is_commit, 0),
        timestamp=0,
        producer_id=5,
        producer_epoch=0,
        base_offset=1,
        leader_epoch=0,
    )
    committed(book, rows(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True), bytes(marker))
    book.check_fetched("g", {("t", 0): 7 if is_commit else -1}, book.position, stable=True)
