"""Batches as columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build, build_empty
from barnabas.batch.columnar import Columns, columns, columns_of
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import BatchView, CorruptBatch

from .samples import RECORDED, START, numbered, record_lists, with_payload


@given(st.lists(st.tuples(record_lists(), st.sampled_from(list(Codec))), max_size=4))
def test_columns_contain_the_records(fetched: list[tuple[list[Record], Codec]]) -> None:
    buffer = b"".join(bytes(build(records, codec=codec)) for records, codec in fetched)
    for form in (buffer, bytearray(buffer)):
        assert_contains(columns(form), fetched)


def assert_contains(read: Columns, fetched: list[tuple[list[Record], Codec]]) -> None:
    expected = [record for records, _ in fetched for record in records]
    assert len(read) == len(expected)
    assert list(read.records()) == expected


def test_control_batches_and_empty_ones_are_skipped() -> None:
    marker = build_marker(
        EndTransactionMarker(commit=True, coordinator_epoch=1),
        timestamp=START,
        producer_id=1,
        producer_epoch=0,
        base_offset=2,
    )
    later = [record._replace(offset=record.offset + 10) for record in numbered(2)]
    buffer = bytes(build(numbered(2)) + marker + build_empty(3, 9) + build(later))
    assert list(columns(buffer).offsets) == [0, 1, 10, 11]
    assert len(columns(b"")) == 0


def test_log_append_time_fills_the_column() -> None:
    batch = build(numbered(3), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=START + 5)
    assert list(columns(batch).timestamps) == [START + 5] * 3


def test_numpy_and_arrow_take_columns_without_a_copy() -> None:
    read = columns(build(RECORDED))
    offsets = np.frombuffer(read.offsets, dtype=np.int64)
    assert offsets.tolist() == [100, 101, 102, 103]
    assert not offsets.flags.owndata
    times = pa.Array.from_buffers(pa.int64(), len(read), [None, pa.py_buffer(read.timestamps)])
    assert times.to_pylist() == [START, START + 5, START + 3, START + 10]
    lengths = np.frombuffer(read.value_lengths, dtype=np.int32)
    assert lengths.tolist() == [2, 6, -1, 58]
    assert read.payload[read.key_starts[3] :][: read.key_lengths[3]] == b"k2"
    assert read.headers(3) == RECORDED[3].headers


def test_uncompressed_batches_are_read_in_place() -> None:
    buffer = bytes(build(numbered(3)) + build(RECORDED))
    read = columns(buffer)
    assert read.payload is buffer
    assert [*read.records()] == numbered(3) + RECORDED
    assert columns(bytes(build(RECORDED, codec=Codec.LZ4))).payload is not buffer
    with pytest.raises(KafkaError):
        columns(buffer, 100)


def test_a_malformed_record_is_rejected() -> None:
    with pytest.raises(CorruptBatch, match="length reaches") as caught:
        columns(with_payload(bytes((40, 0, 0, 0, 1, 1, 0)), 1) + build(numbered(9)))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_record_count_is_checked_against_the_bytes() -> None:
    with pytest.raises(CorruptBatch, match="counts"):
        columns(with_payload(bytes(14), 2**31 - 1))


def test_the_limit_applies_to_all_batches_together() -> None:
    views = [BatchView(build(numbered(50), codec=Codec.ZSTD)) for _ in range(3)]
    size = len(views[0].payload())
    assert len(columns_of(views, 3 * size)) == 150
    with pytest.raises(KafkaError) as caught:
        columns_of(views, 3 * size - 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    plain = [BatchView(build(numbered(50))) for _ in range(3)]
    with pytest.raises(KafkaError):
        columns_of(plain, 3 * size - 1)
