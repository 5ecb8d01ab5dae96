"""The messages about wrong results."""

from __future__ import annotations

import pytest

from tests.spark.logs.whole import assert_same


def test_the_same_rows_in_another_order_are_the_same() -> None:
    assert_same("counts", [(2, "b", 1), (1, "a", 1)], [(1, "a", 1), (2, "b", 1)], key=2)


def test_differences_are_reported_by_kind() -> None:
    expected = [(1, "a", 10), (2, "a", 20), (3, "a", 30), (4, "a", 40)]
    found = [(1, "a", 10), (1, "a", 10), (2, "a", 19), (4, "a", 40), (5, "a", 50)]
    with pytest.raises(AssertionError) as failure:
        assert_same("counts", found, expected, key=2)
    assert str(failure.value).splitlines() == [
        "counts: 5 instead of 4",
        "  1 missing: [(3, 'a', 30)]",
        "  1 come more than once: [(1, 'a', 10)]",
        "  1 surplus: [(5, 'a', 50)]",
        "  1 different (as it must be, as it is): [((2, 'a', 20), (2, 'a', 19))]",
    ]
