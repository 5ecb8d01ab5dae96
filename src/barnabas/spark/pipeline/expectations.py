"""Expectations: a condition that rows must meet, and what happens to those that do not.

A part with expectations becomes two: all its rows under another name, and those that may go on under its own.
Both counts are Spark's observed metrics, so that they cost no pass of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEEP, DROP, DEAD_LETTER, STOP = ACTIONS = ("keep", "drop", "dead-letter", "stop")
# The part with all rows.
ALL = " (all)"
# The names of observed metrics: one of another kind may be the user's.
METRIC = "expectation "


@dataclass(frozen=True, slots=True)
class Expectation:
    """`where` is a condition in SQL; a row for which it is NULL does not meet it."""

    name: str
    where: str
    otherwise: str


@dataclass(frozen=True, slots=True)
class Met:
    """How many rows were looked at, and how many did not meet the expectation."""

    rows: int = 0
    failed: int = 0

    def __add__(self, other: Met) -> Met:
        return Met(self.rows + other.rows, self.failed + other.failed)


def checked(expectations: Sequence[Expectation]) -> Callable[[DataFrame], DataFrame]:
    """A transform that counts, and leaves out the rows that may not go on."""

    def apply(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        columns = [f.expr(name) for name in _quoted(rows)]
        for each in expectations:
            failed = f.count_if(~_met(each)).alias("failed")
            rows = rows.observe(METRIC + each.name, f.count(f.lit(1)).alias("rows"), failed)
        for each in expectations:
            if each.otherwise == STOP:
                name = f.lit(f"the expectation {each.name} is not met by ")
                refused = f.raise_error(f.concat(name, f.to_json(f.struct(*columns)))).cast("boolean")
                rows = rows.where(f.when(_met(each), f.lit(True)).otherwise(refused))
            elif each.otherwise != KEEP:
                rows = rows.where(_met(each))
        return rows

    return apply


def rejected(expectation: Expectation) -> Callable[[DataFrame], DataFrame]:
    """A transform to records of the rows that do not meet it: the value of a record as it was, other rows as
    JSON; headers have the name, and where a record came from."""

    def apply(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        headers = [_header("expectation", f.lit(expectation.name))]
        if {"topic", "partition", "offset"} <= set(rows.columns):
            headers.append(_header("position", f.concat_ws("-", "topic", "partition", "offset")))
        if dict(rows.dtypes).get("value") in ("binary", "string"):
            value = f.col("value").cast("binary")
        else:
            value = f.to_json(f.struct(*[f.expr(name) for name in _quoted(rows)])).cast("binary")
        failed = rows.where(~_met(expectation))
        return failed.select(value.alias("value"), f.array(*headers).alias("headers"))

    return apply


def _met(expectation: Expectation) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.expr(expectation.where).cast("boolean"), f.lit(False))


def _header(key: str, value: Column) -> Column:
    from pyspark.sql import functions as f

    return f.struct(f.lit(key).alias("key"), value.cast("binary").alias("value"))


def _quoted(rows: DataFrame) -> list[str]:
    return [f"`{name.replace('`', '``')}`" for name in rows.columns]


def met(progress: Any) -> dict[str, Met]:
    """The counts of a batch."""
    observed = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(METRIC): Met(row["rows"], row["failed"])
        for name, row in observed.items()
        if name.startswith(METRIC)
    }
