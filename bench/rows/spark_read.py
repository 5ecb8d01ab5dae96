"""Spark reads a topic as a table, all columns or two: with barnabas' source, and with its Kafka connector."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from bench.registry import OURS, Contender, Workbench, row
from bench.servers import Server
from bench.spark import CONNECTOR, OUR_FORMAT, THEIR_FORMAT, options, spark_server, spark_session
from bench.spark_topics import RECORDS, filled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = {OURS: OUR_FORMAT, CONNECTOR: THEIR_FORMAT}
PRUNED = ("value", "timestamp")
PRUNED_SCHEMA = "value binary, timestamp timestamp"


def table(spark: SparkSession, server: Server, topic: str, form: str, *, pruned: bool) -> DataFrame:
    reader = spark.read.format(form).options(**options(server, subscribe=topic))
    if not pruned:
        return reader.load()
    # Spark does not pass the columns of a query to a Python source: the schema selects them.
    return reader.schema(PRUNED_SCHEMA).load() if form == OUR_FORMAT else reader.load().select(*PRUNED)


def read(spark: SparkSession, server: Server, topic: str, form: str, *, pruned: bool) -> float:
    """Rows per second into a sink that drops them."""
    rows = table(spark, server, topic, form, pruned=pruned)
    began = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return RECORDS / (time.perf_counter() - began)


def digest(rows: DataFrame) -> tuple[int, int]:
    """The number of rows, and a sum over all columns that does not depend on their order."""
    row = rows.selectExpr("count(*)", "sum(cast(xxhash64(*) as decimal(38, 0)))").first()
    assert row is not None
    return int(row[0]), int(row[1])


def readers(bench: Workbench, *, pruned: bool) -> Mapping[str, Contender]:
    server = spark_server(bench.context, OURS)
    assert server is not None
    spark = spark_session(bench.context)
    topic = filled(bench.context, server)
    digests = {
        name: digest(table(spark, server, topic, form, pruned=pruned)) for name, form in FORMATS.items()
    }
    assert len(set(digests.values())) == 1, f"they do not read the same rows: {digests}"
    assert digests[OURS][0] == RECORDS, digests
    return {name: partial(read, spark, server, topic, form, pruned=pruned) for name, form in FORMATS.items()}


@row(
    "spark-read-all",
    "Spark reads a topic of 200 B values, all columns",
    unit="rows/s",
    goal=1.2,
    floor=0.9,
    against=CONNECTOR,
    only_by_name=True,
)
def read_all(bench: Workbench) -> Mapping[str, Contender]:
    return readers(bench, pruned=False)


@row(
    "spark-read-pruned",
    "Spark reads a topic of 200 B values, only value and timestamp",
    unit="rows/s",
    goal=2,
    floor=1.3,
    against=CONNECTOR,
    only_by_name=True,
)
def read_pruned(bench: Workbench) -> Mapping[str, Contender]:
    return readers(bench, pruned=True)
