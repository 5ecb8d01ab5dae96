"""Which batches are plain, compiled and interpreted alike."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.batch.build import build
from barnabas.batch.engine.plain import HEADER_SIZE, inspect
from barnabas.batch.records import Record, TimestampType

from .twins import plain, running

T0 = 1_700_000_000_000
NOT_PLAIN = (False, 0, 0, 0, 0, 0, 0, 0)


def batch(*times: int, key: bytes | None = None, **fields: Any) -> bytes:
    rows = [Record(index, time, key, b"value") for index, time in enumerate(times)]
    return bytes(build(rows, **fields))


def look(data: bytes) -> tuple[Any, ...]:
    return inspect(data, data, HEADER_SIZE)


def test_the_fields_of_a_plain_batch() -> None:
    plain_batch = look(batch(T0, T0 - 5, T0 + 9, producer_id=2**40, producer_epoch=3, base_sequence=7))
    assert plain_batch == (True, 3, 3, T0 - 5, T0 + 9, 2**40, 3, 7)
    assert look(batch(T0, key=b"k")) == (True, 1, 0, T0, T0, -1, -1, -1)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 7 + b"\5" + batch(T0)[8:],
        batch(T0, transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
        batch(T0, control=True),
        batch(T0, timestamp_type=TimestampType.LOG_APPEND_TIME),
        batch(-1),
        batch(T0)[:16] + b"\1" + batch(T0)[17:],
        batch(T0)[:21] + b"\x01" + batch(T0)[22:],
        batch(T0)[:22] + b"\x05" + batch(T0)[23:],
        batch(T0)[:23] + bytes(3) + b"\1" + batch(T0)[27:],
        batch(T0)[:57] + bytes(4) + batch(T0)[61:],
        batch(T0)[:35] + bytes(8) + batch(T0)[43:],
        batch(T0) + b"x",
        batch(T0)[:-1],
    ],
)
def test_batches_that_are_not_plain(data: bytes) -> None:
    assert look(data) == NOT_PLAIN


def test_records_with_gaps_are_not_plain() -> None:
    rows = [Record(0, T0, None, b"a"), Record(2, T0, None, b"b")]
    assert look(bytes(build(rows))) == NOT_PLAIN


@given(
    st.lists(st.integers(0, 2**45), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 255)), max_size=4),
)
@settings(max_examples=300)
def test_both_engines_agree_on_damaged_batches(times: list[int], damage: list[tuple[int, int]]) -> None:
    data = bytearray(batch(*times))
    for position, byte in damage:
        if position < len(data):
            data[position] = byte
    results = [engine("plain").inspect(bytes(data), bytes(data), HEADER_SIZE) for engine in (running, plain)]
    assert results[0] == results[1]
