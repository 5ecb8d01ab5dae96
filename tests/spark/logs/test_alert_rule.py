"""The rule of alerts, without Spark."""

from __future__ import annotations

import itertools

from barnabas.spark.logs import truth
from barnabas.spark.logs.alerts import Memory, Rule, after_window

RULE = Rule(bad_rate=0.2, good_rate=0.05, bad_windows=2, good_windows=3, least_requests=10)


def changes(rates: list[float], requests: int = 100) -> list[str | None]:
    memory, changes = Memory(), []
    for rate in rates:
        memory, change = after_window(RULE, memory, requests, round(rate * requests))
        changes.append(change)
    return changes


def test_one_bad_window_is_not_enough() -> None:
    assert changes([0.5, 0.0, 0.5, 0.0]) == [None] * 4


def test_raised_once_and_cleared_once() -> None:
    assert changes([0.2, 0.2, 0.9, 0.9]) == [None, "raised", None, None]
    assert changes([0.2, 0.2, 0.05, 0.05, 0.05, 0.05]) == [None, "raised", None, None, "cleared", None]


def test_between_good_and_bad_nothing_changes() -> None:
    """The hysteresis: neither good enough to be cleared nor bad enough to be raised again."""
    assert changes([0.3, 0.3, 0.1, 0.1, 0.1, 0.1]) == [None, "raised", None, None, None, None]
    assert changes([0.3, 0.3, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0])[-1] == "cleared"


def test_of_few_requests_nothing_is_known() -> None:
    assert changes([1.0] * 5, requests=9) == [None] * 5


def test_the_truth_comes_to_the_same_by_another_way() -> None:
    """It considers the last windows, and remembers only which alerts are raised."""
    for rates in itertools.product((0.0, 0.1, 0.5), repeat=7):
        counted = [
            truth.Count(number, "cart", None, 100, 100, round(rate * 100), 0)
            for number, rate in enumerate(rates)
        ]
        expected = [
            (number + 1, "cart", change) for number, change in enumerate(changes(list(rates))) if change
        ]
        assert truth.alerts(counted, 1, RULE) == expected
