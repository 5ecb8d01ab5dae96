"""The queries of the log pipeline, as functions from DataFrames to a DataFrame, for batches and streams."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.spark.logs.columns import COUNTS, schema
from barnabas.spark.logs.formats import PATTERNS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

JSON_SCHEMA = (
    "time string, level string, service string, id string, kind string, trace string, status int, "
    "duration_ms int, message string"
)
TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSX"
# The four levels, with the names that Python's logging, syslog and Java use.
LEVELS = {
    "TRACE": "DEBUG",
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "NOTICE": "INFO",
    "WARN": "WARN",
    "WARNING": "WARN",
    "ERROR": "ERROR",
    "CRITICAL": "ERROR",
    "FATAL": "ERROR",
}
# An error belongs to a request of the same trace at most this long before it.
ERROR_AFTER_S = 10


def parsed(lines: DataFrame) -> DataFrame:
    """Parse each line, whatever its format; `problem` says why a line could not be parsed."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    as_json = f.when(text.startswith("{"), f.from_json(text, JSON_SCHEMA))
    fields = f.coalesce(
        as_json, *[_by_pattern(text, pattern.PATTERN, pattern.GROUPS) for pattern in PATTERNS]
    )
    rows = lines.select(f.col("value"), fields.alias("fields")).select(
        "value",
        f.try_to_timestamp("fields.time", f.lit(TIME_FORMAT)).alias("time"),
        "fields.service",
        "fields.id",
        _level(f.upper("fields.level")).alias("level"),
        "fields.kind",
        "fields.trace",
        "fields.status",
        "fields.duration_ms",
        "fields.message",
        f.col("fields").isNull().alias("is_strange"),
    )
    problem = (
        f.when(f.col("is_strange"), "no known format")
        .when(f.col("time").isNull(), "no time")
        .when(f.col("service").isNull() | f.col("id").isNull(), "no service or id")
        .when(f.col("level").isNull(), "no known level")
    )
    return rows.withColumn("problem", problem).drop("is_strange")


def _level(name: Column) -> Column:
    """Map to one of the four levels, or NULL."""
    from pyspark.sql import functions as f

    known = [f.lit(text) for pair in LEVELS.items() for text in pair]
    return f.try_element_at(f.create_map(*known), name)


def _by_pattern(text: Column, pattern: str, groups: tuple[str, ...]) -> Column:
    """Return the fields of a matching line; NULL for any other."""
    from pyspark.sql import functions as f

    numbers = {"status", "duration_ms"}

    def group(name: str) -> Column:
        column = f.regexp_extract(text, pattern, groups.index(name) + 1)
        return (column.cast("int") if name in numbers else column).alias(name)

    names = [column.partition(" ")[0] for column in JSON_SCHEMA.split(", ")]
    return f.when(text.rlike(pattern), f.struct(*[group(name) for name in names]))


def bad(parsed: DataFrame) -> DataFrame:
    """Dead letters: the original line and the reason."""
    from pyspark.sql import functions as f

    reason = f.struct(f.lit("problem").alias("key"), f.col("problem").cast("binary").alias("value"))
    return parsed.where("problem IS NOT NULL").select("value", f.array(reason).alias("headers"))


def events(parsed: DataFrame, watermark: str) -> DataFrame:
    """Return every event once, even if its line is duplicated."""
    good = parsed.where("problem IS NULL").drop("value", "problem")
    return good.withWatermark("time", watermark).dropDuplicatesWithinWatermark(["service", "id"])


def owners(spark: SparkSession) -> DataFrame:
    """The owners of services; a table that does not change while the pipeline runs."""
    from barnabas.spark.logs.generator import OWNERS

    return spark.createDataFrame(sorted(OWNERS.items()), "service string, owner string")


def counts(events: DataFrame, owners: DataFrame, window: str) -> DataFrame:
    """Count lines, requests and errors per service and window, with the owner."""
    from pyspark.sql import functions as f

    grouped = events.join(f.broadcast(owners), "service", "left").groupBy(
        f.window("time", window), "service", "owner"
    )
    counted = grouped.agg(
        f.count("*").alias("lines"),
        f.count_if(f.col("kind") == "request").alias("requests"),
        f.count_if(f.col("kind") == "error").alias("errors"),
        f.sum("duration_ms").alias("duration_ms"),
    )
    rate = f.when(f.col("requests") > 0, f.col("errors") / f.col("requests"))
    bounds = {"start": f.col("window.start"), "end": f.col("window.end")}
    return counted.withColumns({**bounds, "error_rate": rate}).select(*COUNTS)


def in_order(rows: DataFrame, key: str, time: str) -> DataFrame:
    """Sort the rows of a batch by time, all rows of one key in one task, so that a partition has them in
    order.

    Otherwise windows of one service are written by different tasks at the same time.  A reader whose batch
    ends between two of them would process the later one first, and its state of the service would be wrong.
     Sorting within batches is enough: all windows of a later batch end later.
    """
    by_time = partial(_sorted, time)
    return rows.repartition(key).mapInArrow(by_time, rows.schema)


def _sorted(column: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sort in memory, as Spark refuses to sort streams; only the few windows that end in one batch are
    held."""
    import pyarrow as pa

    windows = list(batches)
    if windows:
        yield from pa.Table.from_batches(windows).sort_by(column).to_batches()


def failures(events: DataFrame) -> DataFrame:
    """Join requests with their errors."""
    from pyspark.sql import functions as f

    requests = events.where("kind = 'request'").select(
        "trace",
        f.col("time").alias("request_time"),
        "service",
        f.col("message").alias("request"),
        "duration_ms",
    )
    errors = events.where("kind = 'error'").select(
        f.col("trace").alias("error_trace"),
        f.col("time").alias("error_time"),
        f.col("message").alias("error"),
    )
    near = (
        "trace = error_trace AND error_time >= request_time AND "
        f"error_time <= request_time + INTERVAL {ERROR_AFTER_S} SECONDS"
    )
    return requests.join(errors, f.expr(near)).drop("error_trace")


def as_records(rows: DataFrame, key: str) -> DataFrame:
    """Convert rows to records: JSON, with one column as the key."""
    from pyspark.sql import functions as f

    value = f.to_json(f.struct(*[f.col(name) for name in rows.columns]))
    return rows.select(f.col(key).cast("binary").alias("key"), value.cast("binary").alias("value"))


def counts_of(records: DataFrame) -> DataFrame:
    """Convert records back to counts."""
    from pyspark.sql import functions as f

    row = f.from_json(f.col("value").cast("string"), schema(COUNTS)).alias("row")
    return records.select(row).select("row.*")
