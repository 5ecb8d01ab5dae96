"""Varints against the results of Apache Kafka's Java code, hostile ones included."""

from __future__ import annotations

import pytest
from fastcrc import crc32
from librt.strings import BytesWriter

from barnabas.batch.engine.varints import read_varint, read_varlong, size_of_varint, write_varint
from tests.batch.samples import vectors


def test_recorded_numbers() -> None:
    for vector in vectors("primitives"):
        for kind, read in (("int", read_varint), ("long", read_varlong)):
            if kind in vector:
                encoded = bytes.fromhex(str(vector[f"var{kind}_hex"]))
                number = int(str(vector[kind]))
                assert read(encoded, 0, len(encoded)) == (number, len(encoded))
                out = BytesWriter()
                write_varint(out, number)
                assert out.getvalue() == encoded
                assert size_of_varint(number) == len(encoded)
        if "text" in vector:
            assert crc32.iscsi(str(vector["text"]).encode()) == vector["crc32c"]


@pytest.mark.parametrize(
    ("encoded", "number"),
    [
        ("8000", 0),  # longer than necessary
        ("ffffffff0f", -(2**31)),
        ("feffffff0f", 2**31 - 1),
        ("ffffffff7f", -(2**31)),  # bits beyond the 32nd are dropped
        ("808080807e", -(2**28) * 0 + 0x70000000),
        ("ffffffffff01", None),  # six bytes
        ("80", None),  # cut short
        ("", None),
    ],
)
def test_hostile_int(encoded: str, number: int | None) -> None:
    data = bytes.fromhex(encoded)
    value, position = read_varint(data, 0, len(data))
    if number is None:
        assert position == -1
    else:
        assert (value, position) == (number, len(data))


@pytest.mark.parametrize(
    ("encoded", "number"),
    [
        ("ffffffffffffffffff01", -(2**63)),
        ("ffffffffffffffffff7f", -(2**63)),  # bits beyond the 64th are dropped
        ("80808080808080808000", 0),
        ("ffffffffffffffffff8001", None),  # eleven bytes
        ("ffffffffffffffffff", None),
        ("", None),
    ],
)
def test_hostile_long(encoded: str, number: int | None) -> None:
    data = bytes.fromhex(encoded)
    value, position = read_varlong(data, 0, len(data))
    if number is None:
        assert position == -1
    else:
        assert (value, position) == (number, len(data))


def test_a_number_ends_where_its_record_ends() -> None:
    assert read_varint(b"\x80\x01", 0, 1) == (0, -1)
    assert read_varint(b"\x02\x04", 1, 2) == (2, 2)
    assert read_varlong(b"\x02\x04", 2, 2) == (0, -1)
