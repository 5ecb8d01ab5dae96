"""Whether a record can be decoded."""

from __future__ import annotations

import pytest

from barnabas.client.explain.decoding import Format, fault_of

JSON = [b'{"a": 1}', b"2"]
TEXT = [b"hello", "grüß".encode()]
BYTES = [b"\xff", b"hello"]


@pytest.mark.parametrize(
    ("value", "before", "is_fault"),
    [
        (b"3", JSON, False),
        (b"{", JSON, True),
        (b"{", TEXT, False),
        (b"\xff", TEXT, True),
        (b"\xff", BYTES, False),
        (b"\xff", [], False),
        (b"\xff", [None], False),
        (None, JSON, False),
    ],
)
def test_the_guess_is_what_those_before_were(
    value: bytes | None, before: list[bytes | None], is_fault: bool
) -> None:
    assert (fault_of(value, before, Format.GUESS) is not None) is is_fault


def test_an_explicit_format_is_used() -> None:
    assert fault_of(b"x", BYTES, Format.JSON) is not None
    assert fault_of(b"\xff", [], Format.TEXT) is not None
    assert fault_of(b"\xff", TEXT, Format.BYTES) is None


def test_the_fault_shows_how_the_value_begins() -> None:
    fault = fault_of(b"{" + b"x" * 100, JSON, Format.GUESS)
    assert fault is not None
    assert "as the 2 before it are" in fault
    assert "it begins with b'{xxx" in fault
    assert len(fault) < 300
