"""The queries of the log pipeline, as functions from DataFrames to a DataFrame, for batches and streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.spark.logs.columns import COUNTS, PARSED, TEMPLATES, schema
from barnabas.spark.logs.config import Config
from barnabas.spark.logs.learning import Named
from barnabas.spark.logs.parsing import OUTPUT, parse_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

# An error belongs to a request of the same trace at most this long before it.
ERROR_AFTER_S = 10
LINE_COLUMNS = ("value", "topic", "partition", "offset", "timestamp", "headers")
IS_ERROR = "level IN ('ERROR', 'FATAL')"


def parsed(lines: DataFrame, config: Config | None = None) -> DataFrame:
    """Parse each line, whatever its format: the columns of OUTPUT; `problem` says why one could not be
    parsed."""
    chosen = lines.select(*[name for name in LINE_COLUMNS if name in lines.columns])
    return chosen.mapInArrow(partial(parse_batches, config=config or Config()), OUTPUT)


def with_templates(parsed: DataFrame, named: Sequence[Named]) -> DataFrame:
    """Records for `logs.parsed`: the JSON of the lines that were parsed, with their templates."""
    from pyspark.sql import functions as f

    spark = parsed.sparkSession
    rows = [(each.source, each.shape, each.template, each.is_new) for each in named]
    names = spark.createDataFrame(rows, "source string, shape string, template string, is_new boolean")
    good = parsed.where("problem IS NULL").join(f.broadcast(names), ["source", "shape"])
    rest = f.expr("substring(to_json(struct(template, is_new)), 2)")
    value = f.concat(f.expr("left(json, length(json) - 1)"), f.lit(","), rest)
    return good.select(f.col("service").cast("binary").alias("key"), value.cast("binary").alias("value"))


def late(parsed: DataFrame, newest_ms: int | None, allowed_ms: int) -> DataFrame:
    """The lines that are further behind the newest one of the batches before than a line may be: windows that
    were written already do not count them."""
    return parsed.where("false" if newest_ms is None else f"at_ms < {newest_ms - allowed_ms}")


def bad(parsed: DataFrame) -> DataFrame:
    """Dead letters: the original line, with the reason and where it came from in headers."""
    from pyspark.sql import functions as f

    def header(name: str, column: str) -> Column:
        return f.struct(f.lit(name).alias("key"), f.col(column).cast("binary").alias("value"))

    headers = f.array(
        header("problem", "problem"), header("origin", "source"), header("position", "position")
    )
    return parsed.where("problem IS NOT NULL").select("value", headers.alias("headers"))


def lines_of(records: DataFrame) -> DataFrame:
    """Convert records of `logs.parsed` back to lines; `at` is the time of the line."""
    from pyspark.sql import functions as f

    row = f.from_json(f.col("value").cast("string"), schema(PARSED)).alias("row")
    return records.select(row).select("row.*", f.timestamp_millis(f.col("row.at_ms")).alias("at"))


def events(lines: DataFrame, watermark: str, id_field: str = "") -> DataFrame:
    """Lines with a watermark; if a field names each line, every line once."""
    from pyspark.sql import functions as f

    marked = lines.withWatermark("at", watermark)
    if not id_field:
        return marked
    return marked.withColumn("id", f.col("fields")[id_field]).dropDuplicatesWithinWatermark(["service", "id"])


def owners(spark: SparkSession, config: Config) -> DataFrame:
    """The owners of services; a table that does not change while the pipeline runs."""
    return spark.createDataFrame(list(config.owners), "service string, owner string")


def counts(events: DataFrame, owners: DataFrame, window: str) -> DataFrame:
    """Count lines, requests and errors per service and window, with the owner."""
    from pyspark.sql import functions as f

    grouped = events.join(f.broadcast(owners), "service", "left").groupBy(
        f.window("at", window), "service", "owner"
    )
    counted = grouped.agg(
        f.sum("lines").alias("lines"),
        f.count_if(f.col("status").isNotNull()).alias("requests"),
        f.count_if(f.expr(IS_ERROR)).alias("errors"),
        f.count_if(f.col("level") == "WARN").alias("warnings"),
        f.count_if(f.col("is_new")).alias("new_templates"),
        f.sum("duration_ms").alias("duration_ms"),
    )
    rate = f.when(f.col("requests") > 0, f.col("errors") / f.col("requests"))
    bounds = {"start": f.col("window.start"), "end": f.col("window.end")}
    return counted.withColumns({**bounds, "error_rate": rate}).select(*COUNTS)


def templates(events: DataFrame, window: str) -> DataFrame:
    """Count the lines of each kind per service and window, with one of them."""
    from pyspark.sql import functions as f

    counted = events.groupBy(f.window("at", window), "service", "template").agg(
        f.max("level").alias("level"),
        f.sum("lines").alias("lines"),
        f.bool_or("is_new").alias("is_new"),
        f.min_by("message", "at").alias("sample"),
    )
    bounds = {"start": f.col("window.start"), "end": f.col("window.end")}
    return counted.withColumns(bounds).select(*TEMPLATES)


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
    """Requests with the first error of their trace: grouped rather than joined, as a join of a stream with
    itself would read it twice."""
    from pyspark.sql import functions as f

    def first(column: str, of: str, name: str) -> Column:
        return f.expr(f"min_by({column}, at) FILTER (WHERE {of})").alias(name)

    is_request, is_error = "status IS NOT NULL", f"status IS NULL AND {IS_ERROR}"
    # A session ends when nothing came for longer than an error may take.
    grouped = events.where("trace_id IS NOT NULL").groupBy(
        f.session_window("at", f"{ERROR_AFTER_S * 1000 + 1} milliseconds"), "trace_id"
    )
    found = grouped.agg(
        first("at", is_request, "request_time"),
        first("service", is_request, "service"),
        first("message", is_request, "request"),
        first("duration_ms", is_request, "duration_ms"),
        first("at", is_error, "error_time"),
        first("message", is_error, "error"),
    )
    near = f"error_time >= request_time AND error_time <= request_time + INTERVAL {ERROR_AFTER_S} SECONDS"
    return found.where(near).withColumnRenamed("trace_id", "trace").drop("session_window")


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
