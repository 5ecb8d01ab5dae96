"""Spark writes a table to a topic: at least once compared with Spark's connector, exactly once with that."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from bench import topics
from bench.registry import OURS, Contender, RunContext, Workbench, row
from bench.servers import Server
from bench.spark import (
    CONNECTOR,
    OUR_FORMAT,
    PARTITIONS,
    THEIR_FORMAT,
    VALUE_BYTES,
    options,
    spark_server,
    spark_session,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 1_000_000
EXACTLY_ONCE = f"{OURS}, exactly once"
AT_LEAST_ONCE = f"{OURS}, at least once"


def table(context: RunContext) -> DataFrame:
    """Cached in memory, so that creating it is not measured."""

    def make() -> DataFrame:
        spark = spark_session(context)
        rows = spark.range(0, ROWS, 1, PARTITIONS).selectExpr(
            "cast(cast(id as string) as binary) as key",
            f"cast(rpad(lpad(cast(id as string), 12, '0'), {VALUE_BYTES}, 'x') as binary) as value",
        )
        made = rows.cache()
        assert made.count() == ROWS
        context.stack.callback(made.unpersist)
        return made

    return context.shared("spark table", make)


def write(server: Server, rows: DataFrame, form: str, *, exactly_once: bool = False) -> float:
    """Rows per second, all of them in the topic."""
    with topics.topic(server, PARTITIONS) as topic:
        chosen = options(server, topic=topic)
        if exactly_once:
            chosen |= {"deliveryGuarantee": "exactly-once", "sinkId": topic}
        began = time.perf_counter()
        rows.write.format(form).options(**chosen).mode("append").save()
        taken = time.perf_counter() - began
        if exactly_once:
            count = committed(server, rows, topic)
        else:
            count = sum(end or 0 for end in topics.end_offsets(server, topic, PARTITIONS))
        assert count == ROWS, f"{count} of {ROWS} rows are in the topic"
    return ROWS / taken


def committed(server: Server, rows: DataFrame, topic: str) -> int:
    """The records that a read_committed consumer sees: offsets also count transaction markers."""
    chosen = options(server, subscribe=topic) | {"kafka.isolation.level": "read_committed"}
    reader = rows.sparkSession.read.format(OUR_FORMAT).options(**chosen)
    return reader.schema("offset bigint").load().count()


@row(
    "spark-sink",
    "Spark writes a table of 200 B values to a topic, at least once",
    unit="rows/s",
    goal=1.2,
    floor=1,
    against=CONNECTOR,
    only_by_name=True,
)
def sink(bench: Workbench) -> Mapping[str, Contender]:
    server = spark_server(bench.context, OURS)
    assert server is not None
    rows = table(bench.context)
    return {
        OURS: partial(write, server, rows, OUR_FORMAT),
        CONNECTOR: partial(write, server, rows, THEIR_FORMAT),
    }


@row(
    "spark-sink-exactly-once",
    "Spark writes a table of 200 B values to a topic, exactly once",
    unit="rows/s",
    goal=0.9,
    floor=0.7,
    against=AT_LEAST_ONCE,
    only_by_name=True,
)
def sink_exactly_once(bench: Workbench) -> Mapping[str, Contender]:
    server = spark_server(bench.context, OURS)
    assert server is not None
    rows = table(bench.context)
    return {
        EXACTLY_ONCE: partial(write, server, rows, OUR_FORMAT, exactly_once=True),
        AT_LEAST_ONCE: partial(write, server, rows, OUR_FORMAT),
    }
