"""The history of a partition finds wrong leaders, batches, sequence numbers and reads (planted histories)."""

from __future__ import annotations

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.control import ControlType
from barnabas.batch.records import Record
from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.replicated_cluster.history import Batch, PartitionHistory

TOPIC_ID = Uuid.from_words(1, 2)


def content(
    offset: int,
    *values: bytes,
    epoch: int = 0,
    producer: int = -1,
    sequence: int = -1,
    producer_epoch: int = 0,
) -> bytes:
    records = [Record(offset + place, 0, None, value) for place, value in enumerate(values)]
    return bytes(
        build(
            records,
            leader_epoch=epoch,
            producer_id=producer,
            producer_epoch=producer_epoch if producer >= 0 else -1,
            base_sequence=sequence,
        )
    )


def history_of(*contents: bytes, epoch: int = 0) -> PartitionHistory:
    """All of these are exposed by the leader of an epoch."""
    history = PartitionHistory("t", TOPIC_ID, 0)
    expose(history, *contents, epoch=epoch)
    return history


def expose(history: PartitionHistory, *contents: bytes, epoch: int = 0) -> list[Batch]:
    batches = history.batches_in(b"".join(contents), 0)
    history.expose(batches, batches[-1].next_offset, epoch)
    return batches


def test_what_is_exposed_is_committed() -> None:
    history = history_of(content(0, b"a", b"b"), content(2, b"c"))
    assert history.end_offset == 3
    assert history.offsets == {b"a": 0, b"b": 1, b"c": 2}
    assert history.exposed_before(1) == 3
    assert history.exposed_before(0) == 0


def test_two_leaders_of_an_epoch_are_found() -> None:
    history = history_of(content(0, b"a"))
    history.leads(1, 5)
    history.leads(1, 5)
    with pytest.raises(InvariantError, match="n1 and n2 both lead epoch 5"):
        history.leads(2, 5)


def test_two_batches_at_an_offset_of_an_epoch_are_found() -> None:
    history = history_of(content(0, b"a"))
    history.batches_in(content(0, b"other", epoch=1), 0)
    with pytest.raises(InvariantError, match="two batches"):
        history.batches_in(content(0, b"other"), 0)


def test_an_incomplete_batch_is_no_batch() -> None:
    history = history_of(content(0, b"a"))
    data = content(1, b"b") + content(2, b"c")[:-1]
    assert [batch.base_offset for batch in history.batches_in(data, 0)] == [1]


def test_a_high_watermark_beyond_the_log_is_found() -> None:
    history = history_of(content(0, b"a"))
    with pytest.raises(InvariantError, match="exposes offset 3"):
        history.expose(history.batches_in(content(1, b"b"), 0), 3, 0)


def test_a_gap_is_found() -> None:
    history = history_of(content(0, b"a"))
    with pytest.raises(InvariantError, match="follows offset 1"):
        expose(history, content(2, b"b"))


def test_an_epoch_that_goes_back_is_found() -> None:
    history = history_of(content(0, b"a", epoch=3), epoch=3)
    with pytest.raises(InvariantError, match="follows"):
        expose(history, content(1, b"b", epoch=2), epoch=3)


def test_a_value_that_is_there_twice_is_found() -> None:
    history = history_of(content(0, b"a"))
    with pytest.raises(InvariantError, match="again at 1"):
        expose(history, content(1, b"a"))


@pytest.mark.parametrize(("sequence", "producer_epoch"), [(0, 0), (3, 0), (2, 1)])
def test_a_gap_or_repeat_of_sequence_numbers_is_found(sequence: int, producer_epoch: int) -> None:
    history = history_of(content(0, b"a", b"b", producer=7, sequence=0))
    with pytest.raises(InvariantError, match="sequence number"):
        expose(history, content(2, b"c", producer=7, sequence=sequence, producer_epoch=producer_epoch))


def test_a_fenced_producer_is_found() -> None:
    history = history_of(content(0, b"a", producer=7, sequence=0, producer_epoch=2))
    with pytest.raises(InvariantError, match="producer epoch 1 < 2"):
        expose(history, content(1, b"b", producer=7, sequence=1, producer_epoch=1))


def test_right_sequence_numbers_pass() -> None:
    history = history_of(content(0, b"a", b"b", producer=7, sequence=0))
    expose(history, content(2, b"c", producer=7, sequence=2))
    expose(history, content(3, b"d", producer=7, sequence=0, producer_epoch=1))
    expose(history, content(4, b"e", producer=8, sequence=0))
    assert history.end_offset == 5


def test_reads_of_what_is_committed_pass() -> None:
    history = history_of(content(0, b"a"), content(1, b"b"))
    read = history.check_read("c", content(0, b"a") + content(1, b"b"), 2)
    assert [batch.base_offset for batch in read] == [0, 1]


@pytest.mark.parametrize(
    ("read", "high_watermark"),
    [(content(0, b"x"), 2), (content(2, b"c"), 3), (content(1, b"b"), 1)],
    ids=["other bytes", "not committed", "beyond the high watermark"],
)
def test_other_reads_are_found(read: bytes, high_watermark: int) -> None:
    history = history_of(content(0, b"a"), content(1, b"b"))
    with pytest.raises(InvariantError, match="read"):
        history.check_read("c", read, high_watermark)


def transactional(offset: int, *values: bytes, producer_epoch: int = 0) -> bytes:
    records = [Record(offset + place, 0, None, value) for place, value in enumerate(values)]
    return bytes(
        build(
            records,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=producer_epoch,
            base_sequence=0,
            transactional=True,
        )
    )


def marker(offset: int, kind: ControlType, *, producer_epoch: int = 0) -> bytes:
    record = Record(offset, 0, bytes((0, 0, 0, kind)), bytes(6))
    return bytes(
        build(
            [record],
            leader_epoch=0,
            producer_id=7,
            producer_epoch=producer_epoch,
            transactional=True,
            control=True,
        )
    )


@pytest.mark.parametrize(("kind", "is_commit"), [(ControlType.COMMIT, True), (ControlType.ABORT, False)])
def test_a_marker_decides_about_the_batches_before_it(kind: ControlType, is_commit: bool) -> None:
    history = history_of(transactional(0, b"a"), content(1, b"b"))
    assert history.has_open_transactions
    assert history.is_visible(0) is None
    assert history.is_visible(1) is True
    expose(history, marker(2, kind))
    assert not history.has_open_transactions
    assert history.is_visible(0) is is_commit


@pytest.mark.parametrize("is_early", [True, False], ids=["before the marker", "after it"])
def test_an_aborted_transaction_that_is_read_is_found(is_early: bool) -> None:
    history = history_of(transactional(0, b"a"))
    batch = history.committed[0]
    if is_early:
        history.read(batch, is_committed=True)
        with pytest.raises(InvariantError, match="for a reader: True"):
            expose(history, marker(1, ControlType.ABORT))
    else:
        expose(history, marker(1, ControlType.ABORT))
        with pytest.raises(InvariantError, match="for a reader: True"):
            history.read(batch, is_committed=True)


def test_a_marker_of_an_earlier_epoch_is_found() -> None:
    """KIP-890: a late marker must not end the next transaction."""
    history = history_of(transactional(0, b"a", producer_epoch=3))
    with pytest.raises(InvariantError, match="ends"):
        expose(history, marker(1, ControlType.COMMIT, producer_epoch=2))


def test_an_unclean_election_loses_what_its_leader_lacks_and_nothing_else() -> None:
    history = history_of(content(0, b"a", producer=7, sequence=0), content(1, b"b", b"c"), content(3, b"d"))
    history.elected_uncleanly(2)
    assert history.is_disputed
    log = history.batches_in(history.committed[0].content + content(1, b"e", epoch=1), 0)
    history.rewind_to(log, 0)
    assert (history.end_offset, history.offsets, history.is_disputed) == (1, {b"a": 0}, False)
    assert history.exposed_before(2) == 1
    history.expose(log[1:], 2, 2)
    assert history.offsets == {b"a": 0, b"e": 1}
    # Its leader may have forgotten producers with their records: any number is the first, and the next follows.
    expose(history, content(2, b"f", epoch=2, producer=7, sequence=5), epoch=2)
    with pytest.raises(InvariantError, match="the sequence number 9, not 6"):
        expose(history, content(3, b"g", epoch=2, producer=7, sequence=9), epoch=2)


def test_after_an_unclean_election_a_value_is_still_there_once_only() -> None:
    history = history_of(content(0, b"a"), content(1, b"b"))
    history.elected_uncleanly(1)
    history.rewind_to(history.committed[:1], 0)
    expose(history, content(1, b"b", epoch=1), epoch=1)
    with pytest.raises(InvariantError, match="again at 2"):
        expose(history, content(2, b"a", epoch=1), epoch=1)


def test_records_before_the_log_start_are_no_loss() -> None:
    history = history_of(content(0, b"a"), content(1, b"b"), content(2, b"c"))
    history.elected_uncleanly(1)
    history.rewind_to(history.committed[1:2], 1)
    assert history.end_offset == 2
