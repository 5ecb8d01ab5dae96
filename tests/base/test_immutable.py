"""The decorator of messages and effects: a dataclass that mypy freezes."""

from __future__ import annotations

import pytest

from barnabas.base.immutable import immutable


@immutable
class Point:
    x: int
    y: int = 0


def test_equal_values_are_equal_and_have_one_hash() -> None:
    assert Point(1) == Point(1, 0)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


def test_it_has_slots_and_can_be_matched() -> None:
    assert not hasattr(Point(1), "__dict__")
    match Point(3, 4):
        case Point(x, y=4):
            assert x == 3
        case _:
            pytest.fail("the pattern does not match")
