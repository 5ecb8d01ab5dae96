"""The loops of clients: collecting records, hashing keys, records and columns for readers."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.hashing import partition_for_key
from barnabas.batch.build import build
from barnabas.batch.columnar import columns
from barnabas.batch.records import Record
from barnabas.batch.view import HEADER_SIZE, BatchView
from tests.batch.samples import record_lists

from .twins import plain, running

TWINS = (running, plain)
TIMES = st.integers(0, 2**62)


@pytest.mark.parametrize("twin", TWINS)
@given(records=record_lists())
def test_records_appended_one_by_one_equal_a_built_batch(twin: object, records: list[Record]) -> None:
    assert callable(twin)
    module: ModuleType = twin("gather")
    if not records:
        return
    gatherer = module.Gatherer(1 << 30)
    rows = [Record(index, *record[1:]) for index, record in enumerate(records)]
    for index, record in enumerate(rows):
        assert gatherer.append(record.timestamp, record.key, record.value, record.headers) == index
    batch = build(rows)
    assert gatherer.payload() == bytes(batch[HEADER_SIZE:])
    assert gatherer.size == len(batch) - HEADER_SIZE
    view = BatchView(bytes(batch))
    assert (gatherer.count, gatherer.base_timestamp) == (view.record_count, view.base_timestamp)
    assert max(gatherer.max_timestamp, -1) == view.max_timestamp


@pytest.mark.parametrize("twin", TWINS)
def test_a_record_that_does_not_fit_is_not_appended(twin: object) -> None:
    assert callable(twin)
    gatherer = twin("gather").Gatherer(100)
    assert gatherer.append(1, None, b"x" * 500, ()) == 0, "the first one always fits"
    assert gatherer.append(1, None, b"", ()) == -1
    small = twin("gather").Gatherer(100)
    taken = 0
    while small.append(1, b"k", b"v", (("h", None),)) >= 0:
        taken += 1
    assert taken > 1
    assert small.size <= 100
    assert small.count == taken
    values: list[bytes | None] = [b"x"] * 50
    many = twin("gather").Gatherer(100)
    reached = many.append_values(1, values, 0)
    assert 0 < reached < 50
    assert many.count == reached


@pytest.mark.parametrize("twin", TWINS)
@given(key=st.binary(max_size=40), partitions=st.integers(1, 2**31 - 1))
def test_keys_hash_the_same(twin: object, key: bytes, partitions: int) -> None:
    assert callable(twin)
    assert twin("murmur").key_partition(key, partitions) == partition_for_key(key, partitions)


@pytest.mark.parametrize("twin", TWINS)
@given(records=record_lists(), first=st.integers(0, 20))
def test_readers_get_the_records_of_the_batch(twin: object, records: list[Record], first: int) -> None:
    assert callable(twin)
    module: ModuleType = twin("consume")
    if not records:
        return
    data = bytes(build(records))
    batch = BatchView(data)
    start = records[0].offset + first
    out: list[object] = []
    fault = module.decode_consumed(
        data,
        HEADER_SIZE,
        len(data),
        len(records),
        batch.base_offset,
        batch.base_timestamp,
        False,
        start,
        "topic",
        3,
        9,
        0,
        out,
    )
    assert fault == (0, 0)
    expected = [
        module.ConsumerRecord(
            "topic", 3, 9, record.offset, record.timestamp, 0, record.key, record.value, record.headers
        )
        for record in batch.records()
        if record.offset >= start
    ]
    assert out == expected
    if expected:
        assert hash(out[0]) == hash(expected[0])
        assert repr(expected[0]) in repr(out)
        assert out[0] != "something else"


@pytest.mark.parametrize("twin", TWINS)
@given(data=st.binary(max_size=60), count=st.integers(0, 5))
def test_bytes_that_are_not_records(twin: object, data: bytes, count: int) -> None:
    assert callable(twin)
    out: list[object] = []
    arguments = (data, 0, len(data), count, 0, 0, False, 0, "t", 0, 0, 0, out)
    theirs = running("consume").decode_consumed(*arguments)
    assert twin("consume").decode_consumed(*arguments) == theirs


@pytest.mark.parametrize("twin", TWINS)
@given(records=record_lists(), first=st.integers(0, 3))
def test_columns_of_bytes(twin: object, records: list[Record], first: int) -> None:
    assert callable(twin)
    if len(records) <= first:
        return
    whole = columns(bytes(build(records)))
    rows = len(records) - first
    for keys in (True, False):
        column = twin("binary_column").binary_column(whole.vectors, keys, first, rows)
        bounds, slots = list(column.bounds), list(column.slots)
        expected = [record.key if keys else record.value for record in records[first:]]
        for row, value in enumerate(expected):
            is_valid = column.valid[row >> 3] >> (row & 7) & 1
            assert bool(is_valid) == (value is not None)
            slot = slots[row]
            assert whole.payload[bounds[slot] : bounds[slot + 1]] == (value or b"")
        assert bounds == sorted(bounds)
        assert column.nulls == expected.count(None)
