"""The flagship pipeline: logs of many services in any format, from a topic to counts, templates, failures,
alerts and a table.

    barnabas pipeline run barnabas.spark.logs.pipeline --set bootstrap=localhost:9092

    logs ─ parsed ─┬─ topics logs.bad (dead letters) and logs.late
                   └─ topic logs.parsed ─ events ─┬─ counts (with owners) ── topic logs.counts ─┬─ files
                                                  ├─ templates ───────────── topic logs.templates └─ alerts
                                                  └─ failures ────────────── topic logs.failures

Lines are parsed once; everything else reads what was parsed.  The queries themselves are in `queries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.spark.logs import alerts as alerting
from barnabas.spark.logs import queries
from barnabas.spark.logs.config import read_config
from barnabas.spark.logs.learning import Tally
from barnabas.spark.logs.spans import seconds
from barnabas.spark.logs.writing import writer
from barnabas.spark.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TOPICS = (
    "logs", "logs.parsed", "logs.bad", "logs.late", "logs.counts", "logs.templates", "logs.failures",
    "alerts",
)  # fmt: skip

pipeline = Pipeline(
    "logs",
    settings={
        "window": "10 seconds",
        "watermark": "15 seconds",
        "table": "tables/logs-counts",
        "lines_per_batch": "200000",
        # Formats, services, owners and alert rules of one's own: a file (barnabas.spark.logs.config).
        "config": "",
        # The field that names a line, if there is one: a line that comes twice is counted once.
        "id": "",
        "lines": "logs",
        "parsed": "logs.parsed",
        "bad": "logs.bad",
        "late": "logs.late",
        "counts": "logs.counts",
        "templates": "logs.templates",
        "failures": "logs.failures",
        "alerts": "alerts",
    },
)
tally = Tally()


def _topic(spark: SparkSession, settings: Mapping[str, str], sink: str, topic: str) -> DataFrame:
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        # Batches that an exactly-once sink has aborted must not be counted.
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", settings["lines_per_batch"])
        # A group per query: they progress at different speeds, and each shows its own lag.
        .option("groupId", f"pipeline-logs-{sink}")
        .load()
    )


@pipeline.source
def lines(spark: SparkSession, settings: Mapping[str, str], sink: str) -> DataFrame:
    return _topic(spark, settings, sink, settings["lines"])


@pipeline.source
def parsed_records(spark: SparkSession, settings: Mapping[str, str], sink: str) -> DataFrame:
    return _topic(spark, settings, sink, settings["parsed"])


@pipeline.source
def count_records(spark: SparkSession, settings: Mapping[str, str], sink: str) -> DataFrame:
    return _topic(spark, settings, sink, settings["counts"])


@pipeline.table
def owners(spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
    return queries.owners(spark, read_config(settings["config"]))


@pipeline.transform
def parsed(lines: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    return queries.parsed(lines, read_config(settings["config"]))


@pipeline.transform
def events(parsed_records: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    return queries.events(queries.lines_of(parsed_records), settings["watermark"], settings["id"])


@pipeline.transform
def counts(events: DataFrame, owners: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    counted = queries.counts(events, owners, settings["window"])
    return queries.as_records(queries.in_order(counted, "service", "start"), "service")


@pipeline.transform
def templates(events: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    return queries.as_records(queries.templates(events, settings["window"]), "service")


@pipeline.transform
def failures(events: DataFrame) -> DataFrame:
    return queries.as_records(queries.failures(events), "trace")


@pipeline.transform
def rows(count_records: DataFrame) -> DataFrame:
    return queries.counts_of(count_records)


@pipeline.transform
def alerts(rows: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    rules = read_config(settings["config"]).rules
    return queries.as_records(alerting.alerts(rows, rules, seconds(settings["window"])), "service")


def _write_parsed(stream: DataStreamWriter, settings: Mapping[str, str]) -> DataStreamWriter:
    return writer(stream, settings, tally, "logs-parsed")


pipeline.to("parsed", of=parsed, write=_write_parsed, place="topics {parsed}, {bad} and {late}, exactly once")
pipeline.to_topic("counts", of=counts, topic="{counts}", exactly_once=True)
pipeline.to_topic("templates", of=templates, topic="{templates}", exactly_once=True)
pipeline.to_topic("failures", of=failures, topic="{failures}", exactly_once=True)
pipeline.to_topic("alerts", of=alerts, topic="{alerts}", exactly_once=True)
pipeline.to_parquet("table", of=rows, path="{table}", partition_by=["service"])


def report(settings: Mapping[str, str], path: str) -> None:
    from barnabas.spark.logs.report import write_report

    write_report(settings, path)


pipeline.report = report
pipeline.complaint = lambda: tally.complaint
