"""Batches of records as Arrow batches."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.base.errors import KafkaError
from barnabas.batch.build import build, build_empty
from barnabas.batch.columnar import columns_of
from barnabas.batch.compression import Codec
from barnabas.batch.records import Record, TimestampType
from barnabas.client import TopicPartition
from barnabas.client.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.spark.source import rows as rows_module
from barnabas.spark.source.rows import Rows, schema_with

WHERE = TopicPartition("t", 3)


def a_batch(at: int, count: int, *, size: int = 10, kind: TimestampType = TimestampType.CREATE_TIME) -> bytes:
    records = [Record(at + number, 1000 + at + number, None, b"x" * size, ()) for number in range(count)]
    return bytes(build(records, base_offset=at, codec=Codec.ZSTD, timestamp_type=kind))


def taken(data: bytes, start: int, end: int) -> list[list[int]]:
    """The offsets of each Arrow batch."""
    found = Rows(schema_with(headers=True), WHERE).of(
        CompletedFetch(WHERE, data, start, None, True), start, end
    )
    return [batch.column("offset").to_pylist() for batch in found]


def test_a_range_is_cut_out_of_its_batches() -> None:
    data = a_batch(0, 5) + a_batch(5, 5) + a_batch(10, 5)
    assert taken(data, 3, 12) == [list(range(3, 12))]
    assert taken(data, 5, 10) == [list(range(5, 10))]
    assert taken(data, 12, 12) == []


def test_batches_without_records_are_passed_over() -> None:
    """Compaction leaves them, to preserve a producer's last sequence number."""
    data = a_batch(0, 2) + bytes(build_empty(2, 4)) + a_batch(5, 2)
    assert taken(data, 0, 7) == [[0, 1, 5, 6]]
    assert taken(data, 2, 5) == []


def test_batches_from_before_a_time_are_passed_over() -> None:
    data = a_batch(10, 2) + a_batch(0, 2) + a_batch(20, 2)
    rows = Rows(schema_with(headers=False), WHERE)
    found = rows.of(CompletedFetch(WHERE, data, 0, None, True), 0, 30, not_before_ms=1011)
    assert [batch.column("offset").to_pylist() for batch in found] == [[10, 11, 20, 21]]


def test_large_chunks_become_several_arrow_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    data = a_batch(0, 5) + a_batch(5, 5)
    monkeypatch.setattr(rows_module, "GROUP_BYTES", len(data) - 1)
    assert taken(data, 0, 10) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_batches_that_are_too_large_together_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = a_batch(0, 2, size=900) + a_batch(2, 2, size=900)
    monkeypatch.setattr(rows_module, "columns_of", partial(columns_of, limit=2000))
    assert taken(data, 0, 4) == [[0, 1], [2, 3]]
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        taken(a_batch(0, 3, size=900), 0, 3)


def test_times_of_producers_and_brokers_may_mix() -> None:
    """As after message.timestamp.type was changed."""
    data = a_batch(0, 2) + a_batch(2, 2, kind=TimestampType.LOG_APPEND_TIME)
    (batch,) = Rows(schema_with(headers=False), WHERE).of(CompletedFetch(WHERE, data, 1, None, True), 1, 4)
    assert batch.column("timestampType").to_pylist() == [0, 1, 1]
    assert batch.column("topic").to_pylist() == ["t"] * 3
    assert batch.column("partition").to_pylist() == [3] * 3
