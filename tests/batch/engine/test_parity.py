"""Compiled and interpreted, the engine gives the same results, also for bytes that are not records.

A native integer wraps where Python's grows, so hostile numbers matter here.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView
from tests.batch.samples import record_lists

from .twins import plain, running

INT64 = st.integers(-(2**63), 2**63 - 1)
EXTREME = INT64 | st.sampled_from([-(2**63), 2**63 - 1, -(2**62), 2**62, 2**62 - 1, -113, -1, 0])
NUMBERS = st.binary(max_size=12) | st.lists(st.integers(0x80, 0xFF), min_size=3, max_size=11).map(bytes)


COLUMNS = (
    "offsets",
    "timestamps",
    "key_starts",
    "key_lengths",
    "value_starts",
    "value_lengths",
    "header_starts",
)


def test_the_twins_are_different_modules() -> None:
    assert str(running("walk").__file__).endswith((".so", ".pyd"))
    assert plain("walk").__dict__["walk"].__code__.co_filename.endswith("walk.py")


@given(NUMBERS, st.integers(0, 3))
@settings(max_examples=300)
def test_numbers_are_read_alike(data: bytes, position: int) -> None:
    for name in ("read_varint", "read_varlong"):
        for end in (len(data), max(0, len(data) - 1)):
            results = {
                getattr(engine("varints"), name)(data, min(position, end), end) for engine in (running, plain)
            }
            assert len(results) == 1


@given(EXTREME, EXTREME)
@settings(max_examples=300)
def test_sums_wrap_alike(left: int, right: int) -> None:
    for name, exact in (("add_wrapping", left + right), ("subtract_wrapping", left - right)):
        for engine in (running, plain):
            wrapped = (exact + 2**63) % 2**64 - 2**63
            assert getattr(engine("varints"), name)(left, right) == wrapped


@given(EXTREME)
@settings(max_examples=300)
def test_numbers_are_written_alike(value: int) -> None:
    written = []
    for engine in (running, plain):
        out = BytesWriter()
        engine("varints").write_varint(out, value)
        written.append(out.getvalue())
        assert engine("varints").size_of_varint(value) == len(out)
        assert engine("varints").read_varlong(written[-1], 0, len(out)) == (value, len(out))
    assert written[0] == written[1]


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """The payload of a batch, whole or damaged, and a count of records."""
    records = draw(record_lists())
    payload = bytearray(BatchView(build(records)).payload())
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(payload)))
        payload[position : position + draw(st.integers(0, 2))] = draw(NUMBERS)
    return bytes(payload), max(0, len(records) + draw(st.sampled_from([0, 0, 0, -1, 1])))


def columns_of(engine: object, payload: bytes, count: int, base: int, time: int, stamped: bool) -> object:
    module = engine("columns")  # type: ignore[operator]
    vectors = module.ColumnVectors(count)
    fault, index = module.decode_columns(payload, 0, len(payload), 7, 0, count, base, time, stamped, vectors)
    if fault:
        return fault, index
    return [memoryview(getattr(vectors, name)).tolist() for name in COLUMNS]


@given(payloads(), EXTREME, EXTREME, st.booleans())
@settings(max_examples=200)
def test_records_are_walked_and_decoded_alike(
    sample: tuple[bytes, int], base: int, time: int, stamped: bool
) -> None:
    payload, count = sample
    walked = [engine("walk").walk(payload, count) for engine in (running, plain)]
    assert walked[0] == walked[1]
    decoded = [
        engine("decode").decode_records(payload, count, base, time, stamped) for engine in (running, plain)
    ]
    assert decoded[0] == decoded[1]
    columns = [columns_of(engine, payload, count, base, time, stamped) for engine in (running, plain)]
    assert columns[0] == columns[1]
    # The three loops agree on which record is malformed.
    assert walked[0][:2] == decoded[0][:2]
    assert columns[0] == walked[0][:2] if walked[0][0] else isinstance(columns[0], list)


@given(record_lists(), EXTREME)
@settings(max_examples=100)
def test_records_are_encoded_alike(records: list[Record], time: int) -> None:
    rows = [tuple(record) for record in records]
    base = records[0].offset
    encoded = [engine("encode").encode_records(rows, base, time) for engine in (running, plain)]
    assert encoded[0] == encoded[1]
    _, _, back = plain("decode").decode_records(encoded[0][0], len(rows), base, time, False)
    assert back == rows
    shuffled = [engine("encode").encode_records(rows[::-1], base, time) for engine in (running, plain)]
    assert shuffled[0] == shuffled[1]
