"""A pipeline tried with rows: rows of sources in, rows of a part out, without a broker and without streams.

Cases are in a TOML file:

    [[cases]]
    name = "large orders have a bill"
    of = "bills"
    given.lines = [{ value = "3 apples" }, { value = "nonsense" }]
    expect = [{ what = "apples", cents = 90 }]
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.spark.pipeline.definition import SETTINGS, SINK, SPARK, Kind, Pipeline, PipelineError
from barnabas.spark.pipeline.expectations import ALL
from barnabas.spark.pipeline.toml_tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

# The columns of a topic's rows, and what a row has that does not say it.
RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
_NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_FIRST = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """Rows of sources, and what a part makes of them."""

    name: str
    of: str
    given: Mapping[str, Sequence[Row]]
    expected: Sequence[Row]


def read_cases(path: Path) -> list[Case]:
    """The cases of a file; raises PipelineError."""
    try:
        with path.open("rb") as file:
            root = Table(str(path), "", tomllib.load(file))
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: {error}") from error
    root.allow("cases")
    cases = []
    for table in root.list_of_tables("cases"):
        table.allow("name", "of", "given", "expect")
        given = table.table("given")
        rows = {name: given.rows(name) for name in given.given()}
        cases.append(Case(table.required_text("name"), table.required_text("of"), rows, table.rows("expect")))
    if not cases:
        raise PipelineError(f"{path}: it has no cases; write [[cases]] with name, of, given and expect")
    return cases


def rows_of(
    pipeline: Pipeline,
    spark: SparkSession,
    of: str,
    given: Mapping[str, Sequence[Row]],
    settings: Mapping[str, str],
) -> list[dict[str, Any]]:
    """The rows of a part; sources and tables that `given` names have its rows."""
    if of not in pipeline.parts:
        known = ", ".join(sorted(pipeline.parts))
        raise PipelineError(f"{pipeline.name}: there is no part {of}; there is {known}")
    replaced = {name + ALL if name + ALL in pipeline.parts else name: rows for name, rows in given.items()}
    frames: dict[str, Any] = {SPARK: spark, SETTINGS: settings, SINK: "trial"}
    for part in _needed(pipeline, of):
        name = part.name.removesuffix(ALL)
        if part.name in replaced:
            frames[part.name] = _frame(spark, name, replaced[part.name])
        elif part.kind is Kind.SOURCE:
            raise PipelineError(f"{pipeline.name}: {of} needs rows of the source {name}: give some")
        else:
            frames[part.name] = part.function(*(frames[name] for name in part.takes))
    return [row.asDict(recursive=True) for row in frames[of].collect()]


def _needed(pipeline: Pipeline, of: str) -> list[Any]:
    order = pipeline.order()
    wanted = {of}
    for part in reversed(order):
        if part.name in wanted:
            wanted.update(part.upstream)
    return [part for part in order if part.name in wanted]


def _frame(spark: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    """Rows with only columns of a record are records of a topic."""
    if not all(column in _NAMES for row in rows for column in row):
        return spark.createDataFrame([dict(row) for row in rows])
    records = [
        (
            _bytes(row.get("key")), _bytes(row.get("value")), row.get("topic", name), row.get("partition", 0),
            row.get("offset", number), row.get("timestamp", _FIRST), row.get("timestampType", 0),
            [(each["key"], _bytes(each.get("value"))) for each in row.get("headers", ())],
        )
        for number, row in enumerate(rows)
    ]  # fmt: skip
    return spark.createDataFrame(records, RECORD)


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def differences(case: Case, found: Iterable[Row]) -> list[str]:
    """What is wrong with the rows: their order does not matter, nor do columns that no expected row names."""
    columns = {column for row in case.expected for column in row}
    rows = [row if not columns else {name: row.get(name) for name in columns} for row in found]
    expected = Counter(_text({name: row.get(name) for name in columns}) for row in case.expected)
    there = Counter(_text(row) for row in rows)
    missing = (f"missing: {text}" for text in (expected - there).elements())
    return [*missing, *(f"unexpected: {text}" for text in (there - expected).elements())]


def _text(row: Row) -> str:
    return json.dumps(row, default=_plain, sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    return value.isoformat() if isinstance(value, datetime) else str(value)
