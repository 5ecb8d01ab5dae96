"""Pushed-down filters, without a broker."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from barnabas.client import TopicPartition
from barnabas.spark.source.filters import Pushed
from barnabas.spark.source.ranges import OffsetRange


def test_a_time_before_1970_leaves_nothing_out() -> None:
    """Records without a timestamp have -1; and a broker treats a timestamp of -1 as the end of the
    partition."""
    pushed = Pushed()
    old = GreaterThanOrEqual(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC))
    assert pushed.take([old]) == [old]
    assert pushed.not_before_ms is None
    pushed.take([GreaterThan(("timestamp",), datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)), old])
    assert pushed.not_before_ms == 5000


COMPARISONS: dict[type[Any], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda one, others: one in others,
}
END = 10


def ranges() -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition(topic, number), 2, END) for topic in ("a", "b", "c") for number in range(4)
    ]


def offsets(kept: list[OffsetRange]) -> set[tuple[str, int, int]]:
    """Topic, partition and offset of every row that is read."""
    return {
        (each.topic_partition.topic, each.topic_partition.partition, offset)
        for each in kept
        for offset in range(each.start, each.end)
    }


@pytest.mark.parametrize("kind", COMPARISONS)
@pytest.mark.parametrize(
    ("column", "position", "values"),
    [("topic", 0, "abz"), ("partition", 1, range(-1, 6)), ("offset", 2, range(13))],
)
def test_a_filter_keeps_exactly_the_rows_that_pass_it_or_is_left_to_spark(
    kind: type[Any], column: str, position: int, values: Iterable[Any]
) -> None:
    everything = offsets(ranges())
    for value in values:
        value = (value, "c") if kind is In and column == "topic" else (value, 2) if kind is In else value
        condition = kind((column,), value)
        pushed = Pushed()
        left = pushed.take([condition])
        kept = offsets(pushed.keep(ranges()))
        if left:
            assert (left, kept) == ([condition], everything)
        else:
            assert kept == {row for row in everything if COMPARISONS[kind](row[position], value)}


def test_the_filters_that_are_taken() -> None:
    """The others would still be right, but would read everything."""
    taken = {
        (column, kind.__name__)
        for column, value in (("topic", "a"), ("partition", 1), ("offset", 5))
        for kind in COMPARISONS
        if not Pushed().take([kind((column,), (value,) if kind is In else value)])
    }
    ordered = {"EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"}
    assert taken == {
        *(("topic", name) for name in ("EqualTo", "EqualNullSafe", "In")),
        *(("partition", name) for name in (*ordered, "In")),
        *(("offset", name) for name in ordered),
    }


def test_all_filters_hold_together() -> None:
    pushed = Pushed()
    conditions = [
        GreaterThan(("offset",), 3),
        GreaterThanOrEqual(("offset",), 3),
        LessThan(("offset",), 9),
        LessThanOrEqual(("offset",), 9),
        In(("topic",), ("a", "b")),
        EqualTo(("topic",), "b"),
        GreaterThan(("partition",), 1),
    ]
    assert pushed.take(conditions) == []
    assert offsets(pushed.keep(ranges())) == {("b", number, at) for number in (2, 3) for at in range(4, 9)}


def test_only_an_unchanged_start_is_still_the_earliest() -> None:
    whole = replace(ranges()[0], from_earliest=True)
    (kept,) = Pushed().keep([whole])
    assert kept == whole
    pushed = Pushed()
    pushed.take([GreaterThan(("offset",), 5)])
    (kept,) = pushed.keep([whole])
    assert (kept.start, kept.from_earliest) == (6, False)
    unchanged = Pushed()
    unchanged.take([GreaterThan(("offset",), 0)])
    assert unchanged.keep([whole]) == [whole]


@pytest.mark.parametrize("column", ["topic", "partition", "offset", "timestamp", "timestampType"])
def test_columns_that_are_never_null_need_no_check(column: str) -> None:
    assert Pushed().take([IsNotNull((column,))]) == []


@pytest.mark.parametrize("column", ["key", "value", "headers"])
def test_columns_that_may_be_null_are_left_to_spark(column: str) -> None:
    pushed = Pushed()
    conditions = [IsNotNull((column,)), EqualTo((column,), b"x"), EqualNullSafe(("topic",), None)]
    assert pushed.take(conditions) == conditions
    assert pushed.keep(ranges()) == ranges()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (EqualTo, 7000),
        (EqualNullSafe, 7000),
        (GreaterThan, 7000),
        (GreaterThanOrEqual, 7000),
        (LessThan, None),
        (LessThanOrEqual, None),
    ],
)
def test_times_bound_the_start_alone(kind: type[Any], expected: int | None) -> None:
    pushed = Pushed()
    moments = [
        datetime(1970, 1, 1, 0, 0, 7, 999, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 6),
        datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
    ]
    conditions = [kind(("timestamp",), moment) for moment in moments]
    assert pushed.take([*conditions, kind(("timestamp",), 99_999_999)]) != []
    assert pushed.not_before_ms == expected
    assert pushed.keep(ranges()) == ranges()


def test_a_time_without_a_zone_is_utc() -> None:
    pushed = Pushed()
    pushed.take([GreaterThan(("timestamp",), datetime(1970, 1, 2))])
    assert pushed.not_before_ms == 86_400_000
