"""Varints, lengths and the bounds-checked reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.protocol.primitives import (
    ProtocolError,
    Reader,
    continue_length,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
    record_view,
    skip_tagged_fields,
    string_length,
)


def test_apache_kafkas_varints(data: Path) -> None:
    vectors = json.loads((data / "vectors" / "primitives.json").read_text("utf-8"))
    ints = [vector for vector in vectors if "int" in vector]
    longs = [vector for vector in vectors if "long" in vector]
    assert len(ints) == 15
    assert len(longs) == 5
    for vector in ints:
        assert encode_varint(vector["int"]).hex() == vector["varint_hex"]
        assert encode_unsigned_varint(vector["int"]).hex() == vector["unsigned_varint_hex"]
        assert Reader(bytes.fromhex(vector["varint_hex"])).varint() == vector["int"]
        unsigned = Reader(bytes.fromhex(vector["unsigned_varint_hex"])).unsigned_varint()
        assert unsigned == vector["int"] % 2**32
    for vector in longs:
        assert encode_varlong(vector["long"]).hex() == vector["varlong_hex"]
        assert Reader(bytes.fromhex(vector["varlong_hex"])).varlong() == vector["long"]


@given(st.integers(0, 2**31 - 1), st.binary(max_size=3))
def test_lengths_round_trip(value: int, behind: bytes) -> None:
    encoded = encode_unsigned_varint(value)
    assert Reader(encoded + behind).unsigned_varint() == value
    if value > 127:
        assert continue_length(encoded + behind, 1, encoded[0]) == (value, len(encoded))


@pytest.mark.parametrize("text", ["ff" * 6, "8080808080", "ffffffff0f", "8080808010"])
def test_impossible_lengths_are_rejected(text: str) -> None:
    """Overlong ones, and those that would be negative in Java."""
    encoded = bytes.fromhex(text)
    with pytest.raises(ProtocolError):
        continue_length(encoded, 1, encoded[0])


def test_overlong_varints_are_rejected() -> None:
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        Reader(b"\x80" * 5 + b"\x00").unsigned_varint()
    with pytest.raises(ProtocolError, match="longer than 10 bytes"):
        Reader(b"\xff" * 11).varlong()


def test_a_string_has_at_most_32767_bytes() -> None:
    assert string_length(32768) == encode_unsigned_varint(32768)
    with pytest.raises(ProtocolError, match="32768 bytes is too long"):
        string_length(32769)


def test_the_reader_reads_each_type() -> None:
    reader = Reader(
        bytes.fromhex("fffffefffffffdfffffffffffffffcfffefffffffd3ff8000000000000")
        + bytes(range(16))
        + bytes.fromhex("0002c3a4ffff03c3a400")
    )
    assert (reader.int8(), reader.int16(), reader.int32(), reader.int64()) == (-1, -2, -3, -4)
    assert (reader.uint16(), reader.uint32(), reader.float64()) == (65534, 2**32 - 3, 1.5)
    assert reader.uuid() == Uuid(bytes(range(16)))
    assert [reader.string(), reader.string()] == ["ä", None]
    assert [reader.compact_string(), reader.compact_string()] == ["ä", None]
    assert reader.remaining == 0


def test_the_reader_does_not_pass_the_end() -> None:
    for size in (-1, 4, 2**31, 2**63):
        with pytest.raises(ProtocolError):
            Reader(b"abc").view(size)
    with pytest.raises(ProtocolError):
        Reader(b"\x7f\xffab").string()
    with pytest.raises(ProtocolError):
        Reader(b"\xff\xff\xff\xff\x07ab").compact_string()


def test_tagged_fields_are_skipped() -> None:
    section = bytes.fromhex("020001aa810102bbcc")
    reader = Reader(section + b"x")
    reader.skip_tagged_fields()
    assert reader.bytes(1) == b"x"


@pytest.mark.parametrize("text", ["02", "0100", "010005aa", "ffffffff07", "01ffffffffff01aa", "0180"])
def test_tagged_fields_that_do_not_fit_are_rejected(text: str) -> None:
    with pytest.raises(ProtocolError):
        Reader(bytes.fromhex(text)).skip_tagged_fields()


def test_a_count_of_tagged_fields_is_checked_before_the_loop() -> None:
    with pytest.raises(ProtocolError, match="2147483647 tagged fields"):
        skip_tagged_fields(b"\xff\xff\xff\xff\x07", 1, 0xFF)


class FileSlice:
    length = 3

    def read(self) -> bytes:
        return b"abc"


def test_records_in_any_form_can_be_read() -> None:
    assert record_view(None) == b""
    assert record_view(bytearray(b"ab")) == b"ab"
    assert record_view(FileSlice()) == b"abc"


def test_the_error_names_field_and_position() -> None:
    error = ProtocolError("too short", field="topics.name", position=12)
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.INVALID_REQUEST
    assert str(error) == "INVALID_REQUEST: too short (field topics.name, byte 12)"


def test_the_largest_length_is_javas_largest_int() -> None:
    largest = encode_unsigned_varint(2**31 - 1)
    assert continue_length(largest, 1, largest[0]) == (2**31 - 1, len(largest))
    beyond = encode_unsigned_varint(2**31)
    with pytest.raises(ProtocolError, match="the length 2147483648 is not possible"):
        continue_length(beyond, 1, beyond[0])
