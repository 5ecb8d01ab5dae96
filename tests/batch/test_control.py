"""Control records."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.control import (
    ControlType,
    EndTransactionMarker,
    batch_marker,
    build_control,
    build_marker,
    control_key,
    control_type,
    read_marker,
)
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, CorruptBatch

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


@pytest.mark.parametrize("kind", [kind for kind in ControlType if kind > ControlType.COMMIT])
def test_control_records_of_the_metadata_log(kind: ControlType) -> None:
    view = BatchView(build_control(kind, b"value", timestamp=START, base_offset=3, leader_epoch=2))
    (record,) = view.records()
    assert view.is_control
    assert not view.is_transactional
    assert (control_type(record), record.value, record.offset) == (kind, b"value", 3)
    assert batch_marker(view) is None


def test_types_from_the_future_are_unknown_not_an_error() -> None:
    record = Record(0, START, bytes((0, 0, 0, 99)), b"")
    assert control_type(record) is ControlType.UNKNOWN
    assert read_marker(record) is None
    assert control_type(Record(0, START, bytes((0, 5, 0, 1, 7, 7)), b"")) is ControlType.COMMIT
    with pytest.raises(ValueError, match="unknown"):
        control_key(ControlType.UNKNOWN)


def test_a_marker_that_compaction_emptied_says_nothing() -> None:
    from barnabas.batch.build import build_empty

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
def test_malformed_markers_are_refused(key: bytes | None, value: bytes | None) -> None:
    view = BatchView(build([Record(0, START, key, value)], control=True))
    with pytest.raises(CorruptBatch) as caught:
        batch_marker(view)
    assert caught.value.code is ErrorCode.INVALID_RECORD
