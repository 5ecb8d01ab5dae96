"""Names and content of snapshots."""

from __future__ import annotations

import pytest

from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import batches
from barnabas.protocol.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.raft.snapshot import (
    BATCH_VALUE_BYTES,
    MAX_BATCH_BYTES,
    SnapshotId,
    SnapshotState,
    parse_snapshot_name,
    snapshot_batches,
)
from barnabas.raft.voters import Voter, Voters


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000128-0000000001.checkpoint", (SnapshotId(128, 1), SnapshotState.WHOLE)),
        ("00000000000000000128-0000000001.checkpoint.deleted", (SnapshotId(128, 1), SnapshotState.DELETED)),
        ("00000000000000000128-0000000001.checkpoint.part", (SnapshotId(128, 1), SnapshotState.PARTIAL)),
        (
            "00000000000000000128-0000000001-4242.checkpoint.part",
            (SnapshotId(128, 1), SnapshotState.PARTIAL),
        ),
        ("bootstrap.checkpoint", None),
        ("00000000000000000128.snapshot", None),
        ("0000000000000000012x-0000000001.checkpoint", None),
    ],
)
def test_names(name: str, parsed: tuple[SnapshotId, SnapshotState] | None) -> None:
    assert parse_snapshot_name(name) == parsed


def test_names_sort_as_snapshots_do() -> None:
    ids = [SnapshotId(9, 2), SnapshotId(10, 1), SnapshotId(10, 2)]
    assert sorted(ids) == sorted(ids, key=lambda snapshot: snapshot.file_name)
    assert parse_snapshot_name(ids[0].partial_name) == (ids[0], SnapshotState.PARTIAL)
    assert parse_snapshot_name(ids[0].deleted_name) == (ids[0], SnapshotState.DELETED)


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_records_are_between_a_header_and_a_footer(kraft_version: int) -> None:
    values = [b"v" * 1000] * (BATCH_VALUE_BYTES // 1000 + 5)
    voters = Voters([Voter(1)])
    content = b"".join(
        snapshot_batches(
            values,
            SnapshotId(50, 3),
            last_timestamp_ms=77,
            now_ms=99,
            kraft_version=kraft_version,
            voters=voters,
        )
    )
    written = list(batches(content))
    assert all(batch.crc_ok() and batch.leader_epoch == 3 for batch in written)
    offsets = [record.offset for batch in written for record in batch.records()]
    assert offsets == list(range(len(offsets)))
    first = [read_quorum_message(record) for record in written[0].records()]
    assert first[0] == SnapshotHeaderRecord(version=0, last_contained_log_timestamp=77)
    kinds = [SnapshotHeaderRecord, KRaftVersionRecord, VotersRecord][: 1 + 2 * kraft_version]
    assert [type(message) for message in first] == kinds
    (last,) = written[-1].records()
    assert read_quorum_message(last) == SnapshotFooterRecord(version=0)
    assert [record.value for batch in written[1:-1] for record in batch.records()] == values
    assert len(written) == 4


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([BATCH_VALUE_BYTES], [1]),
        ([BATCH_VALUE_BYTES, 1], [1, 1]),
        ([1, BATCH_VALUE_BYTES], [1, 1]),
        ([BATCH_VALUE_BYTES - 1, 1, 1], [2, 1]),
        ([BATCH_VALUE_BYTES // 2] * 4, [2, 2]),
        ([BATCH_VALUE_BYTES // 2 + 1] * 3, [1, 1, 1]),
        ([], []),
    ],
)
def test_batches_have_a_bounded_size(sizes: list[int], expected: list[int]) -> None:
    content = b"".join(
        snapshot_batches(
            [bytes(size) for size in sizes],
            SnapshotId(50, 3),
            last_timestamp_ms=77,
            now_ms=99,
            voters=Voters([Voter(1)]),
            kraft_version=0,
        )
    )
    header, *data, footer = batches(content)
    assert header.is_control
    assert footer.is_control
    assert [batch.record_count for batch in data] == expected
    # A batch, with what surrounds the values, is no larger than a follower accepts.
    assert all(batch.size <= MAX_BATCH_BYTES for batch in data)
    assert MAX_BATCH_BYTES == 8 * 1024 * 1024, "KafkaRaftClient.MAX_BATCH_SIZE_BYTES"
