"""Control records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.batch.build import build, build_empty
from barnabas.batch.control import (
    QUORUM_MESSAGES,
    ControlType,
    EndTransactionMarker,
    batch_marker,
    build_marker,
    build_quorum_batch,
    control_key,
    control_type,
    read_marker,
    read_quorum_message,
)
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, CorruptBatch, batches
from barnabas.protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

from .samples import START, vectors


def test_the_recorded_commit_marker_is_read() -> None:
    (vector,) = [each for each in vectors("batches") if str(each["kind"]).startswith("control")]
    view = BatchView(bytes.fromhex(str(vector["hex"])))
    assert batch_marker(view) == EndTransactionMarker(commit=True, coordinator_epoch=7)


@pytest.mark.parametrize("commit", [True, False])
def test_markers_round_trip(commit: bool) -> None:
    marker = EndTransactionMarker(commit=commit, coordinator_epoch=2**31 - 1)
    view = BatchView(build_marker(marker, timestamp=START, producer_id=7, producer_epoch=3, base_offset=9))
    assert view.is_control
    assert view.is_transactional
    assert (view.base_sequence, view.last_sequence, view.base_offset) == (-1, -1, 9)
    assert batch_marker(view) == marker


QUORUM: list[Any] = [
    SnapshotHeaderRecord(version=0, last_contained_log_timestamp=START),
    KRaftVersionRecord(version=0, kraft_version=1),
    VotersRecord(
        version=0,
        voters=[
            VotersRecord.Voter(
                voter_id=1,
                voter_directory_id=Uuid(bytes(range(16))),
                endpoints=[VotersRecord.Endpoint(name="CONTROLLER", host="a", port=9093)],
                kraft_version_feature=VotersRecord.KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=1
                ),
            )
        ],
    ),
    LeaderChangeMessage(
        version=1,
        leader_id=1,
        voters=[LeaderChangeMessage.Voter(voter_id=1, voter_directory_id=Uuid(bytes(range(16))))],
        granting_voters=[],
    ),
    SnapshotFooterRecord(version=0),
]


def test_control_records_of_the_metadata_log_round_trip() -> None:
    view = BatchView(build_quorum_batch(QUORUM, timestamp=START, base_offset=3, leader_epoch=2))
    assert view.is_control
    assert not view.is_transactional
    assert (view.base_offset, view.last_offset, view.leader_epoch) == (3, 7, 2)
    assert [read_quorum_message(record) for record in view.records()] == QUORUM
    assert batch_marker(view) is None
    assert {control_type(record) for record in view.records()} == set(QUORUM_MESSAGES)


def test_control_records_that_apache_kafka_wrote_are_read(golden_logs: Path) -> None:
    messages = set()
    for path in golden_logs.rglob("*"):
        if path.suffix in (".log", ".checkpoint") and "__cluster_metadata" in path.parent.name:
            for view in batches(path.read_bytes()):
                for record in view.records() if view.is_control else ():
                    message = read_quorum_message(record)
                    assert message is not None
                    messages.add(type(message))
    assert {LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord} <= messages


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0", b"\xff\xff\0\0\0\0\1\1\1\0", b"\0\0" + bytes(20)])
def test_malformed_quorum_messages_are_rejected(value: bytes | None) -> None:
    record = Record(0, START, control_key(ControlType.LEADER_CHANGE), value)
    with pytest.raises(CorruptBatch) as caught:
        read_quorum_message(record)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("version", [2, 99, 2**15 - 1])
def test_a_control_record_of_a_future_version_is_read_as_the_newest_known(version: int) -> None:
    for known in QUORUM:
        newest = known.schema.versions.highest
        value = version.to_bytes(2, "big") + known.encode(newest)[2:]
        kind = next(kind for kind, message in QUORUM_MESSAGES.items() if message is type(known))
        read = read_quorum_message(Record(0, START, control_key(kind), value))
        assert read is not None
        assert read.version == version
        assert read.encode(newest)[2:] == known.encode(newest)[2:]


def test_types_of_later_releases_are_unknown_and_not_an_error() -> None:
    record = Record(0, START, bytes((0, 0, 0, 99)), b"")
    assert control_type(record) is ControlType.UNKNOWN
    assert read_marker(record) is None
    assert read_quorum_message(record) is None
    assert control_type(Record(0, START, bytes((0, 5, 0, 1, 7, 7)), b"")) is ControlType.COMMIT
    with pytest.raises(ValueError, match="unknown"):
        control_key(ControlType.UNKNOWN)


def test_a_marker_emptied_by_compaction_has_no_result() -> None:
    assert batch_marker(BatchView(build_empty(5, 5, transactional=True, control=True))) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_malformed_markers_are_rejected(key: bytes | None, value: bytes | None) -> None:
    view = BatchView(build([Record(0, START, key, value)], control=True))
    with pytest.raises(CorruptBatch) as caught:
        batch_marker(view)
    assert caught.value.code is ErrorCode.INVALID_RECORD
