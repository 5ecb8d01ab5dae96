"""The flagship pipeline: logs of many services, from a topic to counts, failures, alerts and a table.

    barnabas pipeline run barnabas.spark.logs.pipeline --set bootstrap=localhost:9092

    logs ─ parsed ─┬─ bad ───────────────────────────── topic logs.bad (dead letters)
                   └─ events ─┬─ counts (with owners) ── topic logs.counts ─┬─ files (Parquet)
                              └─ failures ────────────── topic logs.failures └─ alerts ─ topic alerts

The queries themselves are in `queries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.spark.logs import alerts as alerting
from barnabas.spark.logs import queries
from barnabas.spark.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = ("logs", "logs.bad", "logs.counts", "logs.failures", "alerts")

pipeline = Pipeline(
    "logs",
    settings={
        "window": "10 seconds",
        "watermark": "15 seconds",
        "table": "tables/logs-counts",
        "lines_per_batch": "200000",
    },
)


def _topic(spark: SparkSession, settings: Mapping[str, str], sink: str, topic: str) -> DataFrame:
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # Batches that an exactly-once sink has aborted must not be counted.
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", settings["lines_per_batch"])
        # A group per query: they progress at different speeds, and each shows its own lag.
        .option("groupId", f"pipeline-logs-{sink}")
        .load()
    )


@pipeline.source
def lines(spark: SparkSession, settings: Mapping[str, str], sink: str) -> DataFrame:
    return _topic(spark, settings, sink, "logs")


@pipeline.source
def count_records(spark: SparkSession, settings: Mapping[str, str], sink: str) -> DataFrame:
    return _topic(spark, settings, sink, "logs.counts")


@pipeline.table
def owners(spark: SparkSession) -> DataFrame:
    return queries.owners(spark)


@pipeline.transform
def parsed(lines: DataFrame) -> DataFrame:
    return queries.parsed(lines)


@pipeline.transform
def bad(parsed: DataFrame) -> DataFrame:
    return queries.bad(parsed)


@pipeline.transform
def events(parsed: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    return queries.events(parsed, settings["watermark"])


@pipeline.transform
def counts(events: DataFrame, owners: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    counted = queries.counts(events, owners, settings["window"])
    return queries.as_records(queries.in_order(counted, "service", "start"), "service")


@pipeline.transform
def failures(events: DataFrame) -> DataFrame:
    return queries.as_records(queries.failures(events), "trace")


@pipeline.transform
def rows(count_records: DataFrame) -> DataFrame:
    return queries.counts_of(count_records)


@pipeline.transform
def alerts(rows: DataFrame) -> DataFrame:
    return queries.as_records(alerting.alerts(rows), "service")


pipeline.to_dead_letters("bad", of=bad, topic="logs.bad")
pipeline.to_topic("counts", of=counts, topic="logs.counts", exactly_once=True)
pipeline.to_topic("failures", of=failures, topic="logs.failures", exactly_once=True)
pipeline.to_topic("alerts", of=alerts, topic="alerts", exactly_once=True)
pipeline.to_parquet("table", of=rows, path="{table}", partition_by=["service"])


def report(settings: Mapping[str, str], path: str) -> None:
    from barnabas.spark.logs.report import write_report

    write_report(settings, path)


pipeline.report = report
