"""Seeded numbers."""

from __future__ import annotations

import random

import pytest

from barnabas.runtime.random import SeededRandom

RANGES = ((0, 0), (0, 1), (-3, 4), (1, 7), (1, 8), (0, 2**40))


def test_integers_are_those_of_the_standard_library() -> None:
    """Seeds in notes and tests keep their meaning."""
    drawn, expected = SeededRandom(5), random.Random(5)
    for _ in range(200):
        for low, high in RANGES:
            assert drawn.integer(low, high) == expected.randint(low, high)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing lies between 2 and 1"):
        SeededRandom(5).integer(2, 1)
