"""The rule of alerts, without Spark."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from barnabas.spark.logs.alerts import Memory, Rule, Service, after_window, value_of
from barnabas.testing.logs import truth

RULE = Rule(bad_rate=0.2, good_rate=0.05, bad_windows=2, good_windows=3, least_requests=10)


def counted(requests: int, rate: float = 0.0, **others: Any) -> dict[str, Any]:
    errors = round(rate * requests)
    return {"requests": requests, "errors": errors, "lines": requests, "new_templates": 0, **others}


def changes(rates: list[float], requests: int = 100) -> list[str | None]:
    memory, changes = Memory(), []
    for rate in rates:
        memory, change = after_window(RULE, memory, value_of(RULE, counted(requests, rate)))
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


START = datetime(2026, 11, 18, tzinfo=UTC)
WINDOW = timedelta(minutes=1)


def window(number: int, **others: Any) -> dict[str, Any]:
    return counted(100, owner="ann", end=START + WINDOW * number, **others)


def service(*rules: Rule) -> Service:
    return Service("shop", rules, None)


def test_lines_without_requests_have_a_rate_too() -> None:
    window = counted(0, lines=50) | {"errors": 25}
    assert value_of(RULE, window) == 0.5
    assert value_of(RULE, window | {"lines": 9}) is None


def test_a_count_of_what_is_chosen() -> None:
    rule = Rule("warnings", "count", of="warnings", bad_rate=5, good_rate=0, bad_windows=1, good_windows=1)
    state = service(rule)
    found = [list(state.take(window(number, warnings=count))) for number, count in enumerate((4, 5, 1, 0))]
    assert [[row[2:4] for row in rows] for rows in found] == [
        [], [("warnings", "raised")], [], [("warnings", "cleared")]
    ]  # fmt: skip


def test_a_new_template_is_an_alert_for_a_window() -> None:
    rule = Rule("new", "new-template", bad_rate=1, good_rate=0, bad_windows=1, good_windows=1)
    state = service(rule)
    found = [row[3] for count in (0, 2, 0, 0) for row in state.take(window(0, new_templates=count))]
    assert found == ["raised", "cleared"]


BURST = Rule("burst", "burst", of="lines", bad_rate=5, good_rate=2.5, bad_windows=1, good_windows=1)


def bursts(*lines: int) -> list[list[str]]:
    """What changes in each window; the state is kept and read back in between."""
    state, found = service(BURST), []
    for number, count in enumerate(lines):
        found.append([row[3] for row in state.take(window(number, lines=count))])
        state = Service("shop", (BURST,), state.state())
    return found


def test_a_burst_is_many_times_what_is_usual() -> None:
    assert bursts(10, 10, 10, 10, 49, 10)[4] == []
    assert bursts(10, 10, 10, 10, 50, 10) == [[], [], [], [], ["raised"], ["cleared"]]


def test_no_burst_is_known_before_what_is_usual_is() -> None:
    assert bursts(1, 1, 1, 1000) == [[]] * 4
    assert bursts(1, 1, 1, 1, 19) == [[]] * 5


def test_a_burst_that_lasts_becomes_usual() -> None:
    found = bursts(*[10] * 12, *[100] * 12)
    assert found[12] == ["raised"]
    assert sum(map(len, found)) == 2


def test_absence_is_told_by_the_time_and_ends_with_a_line() -> None:
    state = service(Rule("silent", "absence", bad_windows=3))
    assert list(state.take(window(1))) == []
    (deadline,) = state.deadlines(WINDOW)
    assert deadline[1] == START + WINDOW * 4
    assert list(state.expire(deadline[1] - timedelta(seconds=1), WINDOW)) == []
    assert [row[3] for row in state.expire(deadline[1], WINDOW)] == ["raised"]
    assert list(state.expire(deadline[1] + WINDOW, WINDOW)) == []
    assert [row[3] for row in state.take(window(9))] == ["cleared"]


def test_the_state_of_rules_outlives_a_process_and_a_change_of_the_rules() -> None:
    state = service(RULE)
    raised = [row[3] for number in range(2) for row in state.take(window(number) | {"errors": 50})]
    assert raised == ["raised"]
    again = Service("shop", (RULE, Rule("silent", "absence")), state.state())
    assert [rule.name for rule, _ in again.deadlines(WINDOW)] == ["silent"]
    cleared = [row[3] for number in range(2, 5) for row in again.take(window(number))]
    assert cleared == ["cleared"]


def test_rules_are_of_the_services_that_they_name() -> None:
    other = Rule("other", service="web*", bad_windows=1)
    assert list(service(other).take(window(0) | {"errors": 100})) == []
