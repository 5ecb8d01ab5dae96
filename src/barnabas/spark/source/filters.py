"""Filters that a batch read can apply itself: on topic, partition, offset and timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from barnabas.client.model import TopicPartition
from barnabas.spark.source.ranges import OffsetRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# These are never null, so there is nothing to filter.
_NEVER_NULL = {("topic",), ("partition",), ("offset",), ("timestamp",), ("timestampType",)}


class Pushed:
    """The accepted filters, all of which a row must pass."""

    def __init__(self) -> None:
        self._of_partitions: list[Callable[[TopicPartition], bool]] = []
        self._offset_from: int | None = None
        self._offset_until: int | None = None
        # Records before the first one of this time cannot pass; later ones may still be older.
        self.not_before_ms: int | None = None

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Accept filters; returns those that Spark must still apply."""
        return [condition for condition in filters if not self._take(condition)]

    def keep(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Restrict the ranges to what can pass."""
        kept = []
        for offset_range in ranges:
            if all(passes(offset_range.topic_partition) for passes in self._of_partitions):
                start, end = offset_range.start, offset_range.end
                if self._offset_from is not None and self._offset_from > start:
                    start = min(self._offset_from, end)
                if self._offset_until is not None:
                    end = max(min(end, self._offset_until), start)
                is_same_start = start == offset_range.start
                kept.append(
                    replace(
                        offset_range,
                        start=start,
                        end=end,
                        from_earliest=offset_range.from_earliest and is_same_start,
                    )
                )
        return kept

    def _take(self, condition: Filter) -> bool:
        if isinstance(condition, IsNotNull):
            return condition.attribute in _NEVER_NULL
        attribute, value = getattr(condition, "attribute", None), getattr(condition, "value", None)
        if value is None:
            return False
        if attribute == ("topic",):
            return self._take_name(condition, value)
        if attribute == ("partition",):
            return self._take_partition(condition, value)
        if attribute == ("offset",):
            return self._take_offset(condition, value)
        if attribute == ("timestamp",):
            self._take_time(condition, value)
        return False

    def _take_name(self, condition: Filter, value: Any) -> bool:
        if isinstance(condition, EqualTo | EqualNullSafe):
            self._of_partitions.append(lambda topic_partition: topic_partition.topic == value)
        elif isinstance(condition, In):
            self._of_partitions.append(lambda topic_partition: topic_partition.topic in value)
        else:
            return False
        return True

    def _take_partition(self, condition: Filter, value: Any) -> bool:
        if isinstance(condition, EqualTo | EqualNullSafe):
            self._of_partitions.append(lambda topic_partition: topic_partition.partition == value)
        elif isinstance(condition, In):
            self._of_partitions.append(lambda topic_partition: topic_partition.partition in value)
        elif isinstance(condition, GreaterThan):
            self._of_partitions.append(lambda topic_partition: topic_partition.partition > value)
        elif isinstance(condition, GreaterThanOrEqual):
            self._of_partitions.append(lambda topic_partition: topic_partition.partition >= value)
        elif isinstance(condition, LessThan):
            self._of_partitions.append(lambda topic_partition: topic_partition.partition < value)
        elif isinstance(condition, LessThanOrEqual):
            self._of_partitions.append(lambda topic_partition: topic_partition.partition <= value)
        else:
            return False
        return True

    def _take_offset(self, condition: Filter, value: int) -> bool:
        if isinstance(condition, EqualTo | EqualNullSafe):
            self._from(value)
            self._until(value + 1)
        elif isinstance(condition, GreaterThan):
            self._from(value + 1)
        elif isinstance(condition, GreaterThanOrEqual):
            self._from(value)
        elif isinstance(condition, LessThan):
            self._until(value)
        elif isinstance(condition, LessThanOrEqual):
            self._until(value + 1)
        else:
            return False
        return True

    def _take_time(self, condition: Filter, value: Any) -> None:
        """Never the whole filter: timestamps need not grow with offsets."""
        if not isinstance(value, datetime):
            return
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        # Rounded down to the millisecond: Spark filters what is kept unnecessarily.
        time_ms = (value - _EPOCH) // _MILLISECOND
        # Records without a timestamp have -1, and brokers treat negative timestamps as special values.
        if time_ms >= 0 and isinstance(condition, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
            self.not_before_ms = max(time_ms, self.not_before_ms or 0)

    def _from(self, offset: int) -> None:
        self._offset_from = offset if self._offset_from is None else max(offset, self._offset_from)

    def _until(self, offset: int) -> None:
        self._offset_until = offset if self._offset_until is None else min(offset, self._offset_until)
