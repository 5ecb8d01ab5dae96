"""The Yahoo streaming benchmark: barnabas' broker and formats against Apache Kafka and Spark's connector.

A round first runs the query over a filled topic, which gives events per second, and then over
events at a fixed rate.  There the latency counts from the last event in an updated count to
the update in the output topic, by the clock of the broker (LogAppendTime).  Both times the counts
must add up to the number of generated events.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.batch.view import batches
from bench import topics
from bench.ad_events import COUNTED, WINDOW_MS, Generator, Update, ads, final_total, percentile
from bench.apache import APACHE, PROJECT
from bench.registry import OURS, Contender, RunContext, Workbench, row
from bench.servers import Server
from bench.spark import (
    CONNECTOR,
    OUR_FORMAT,
    PARTITIONS,
    SPREAD_MS,
    THEIR_FORMAT,
    ended,
    fill,
    now_ms,
    options,
    spark_server,
    spark_session,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

THEIRS = f"{APACHE}, {CONNECTOR}"
EVENTS = 1_000_000
MICRO_BATCHES = 4
PACED_EVENTS_A_SECOND = 5_000
PACED_S = 20.0
# The first micro-batches of a query are slow and not measured.
UNMEASURED_S = 6.0
PATIENCE_S = 240
# One output partition, so that updates of a window stay in order.
OUTPUT_PARTITIONS = 1
OUTPUT_CONFIGS = {"message.timestamp.type": "LogAppendTime"}
FETCH_BYTES = 1 << 20
EVENT_SCHEMA = "event_type string, ad_id string, event_time string"


@dataclass(frozen=True, slots=True)
class Side:
    """A broker with its connector, and its filled topic."""

    server: Server
    form: str
    spark: SparkSession
    campaigns: DataFrame
    topic: str
    # How many of the topic's events a correct query counts.
    counted: int
    scratch: Path
    numbers: Iterator[int]


def start(side: Side, source: str, output: str, **extra_options: str) -> Any:
    """Starts the query of the benchmark, which writes each changed count to the output topic."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    source_options = options(side.server, subscribe=source, startingOffsets="earliest", **extra_options)
    events = side.spark.readStream.format(side.form).options(**source_options).load()
    views = (
        events.select(F.from_json(F.col("value").cast("string"), EVENT_SCHEMA).alias("event"))
        .where(F.col("event.event_type") == COUNTED)
        .select("event.ad_id", F.timestamp_millis(F.col("event.event_time").cast("bigint")).alias("at"))
    )
    counts = (
        views.join(F.broadcast(side.campaigns), "ad_id")
        .withWatermark("at", f"{SPREAD_MS} milliseconds")
        .groupBy("campaign_id", F.window("at", f"{WINDOW_MS} milliseconds"))
        .agg(F.count("*").alias("count"), F.max("at").alias("last"))
    )
    line = F.concat_ws(
        ",", "campaign_id", F.unix_millis("window.start"), "count", F.unix_millis(F.col("last"))
    )
    trigger: dict[str, Any] = {"availableNow": True} if extra_options else {"processingTime": "0 seconds"}

    def write(changed: DataFrame, number: int) -> None:
        changed.write.format(side.form).options(**options(side.server, topic=output)).mode("append").save()

    # With foreachBatch for both: Python stream writers do not support update mode.
    return (
        counts.select(line.cast("binary").alias("value"))
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(side.scratch / f"yahoo-{next(side.numbers)}"))
        .trigger(**trigger)
        .start()
    )


def updates(server: Server, output: str) -> list[tuple[int, Update]]:
    """The updates that the query wrote, with their append times."""
    result = []
    offset, [end] = 0, topics.end_offsets(server, output, OUTPUT_PARTITIONS)
    while offset < (end or 0):
        data = topics.records_at(server, output, 0, offset, FETCH_BYTES)
        for batch in batches(data):
            for record in batch.records():
                if record.offset >= offset:
                    result.append((record.timestamp, Update.read(record.value or b"")))
            offset = batch.next_offset
    return result


def catch_up(side: Side) -> float:
    """Events per second, from the start of the query to its end."""
    with topics.topic(side.server, OUTPUT_PARTITIONS, OUTPUT_CONFIGS) as output:
        began = time.perf_counter()
        query = start(side, side.topic, output, maxOffsetsPerTrigger=str(EVENTS // MICRO_BATCHES))
        ended(query, PATIENCE_S)
        taken = time.perf_counter() - began
        total = final_total([update for _, update in updates(side.server, output)])
        assert total == side.counted, f"{total} of {side.counted} views were counted"
    return EVENTS / taken


def paced(side: Side) -> float:
    """The 99th percentile of the latency from an event to its count, in milliseconds."""
    with (
        topics.topic(side.server, PARTITIONS) as source,
        topics.topic(side.server, OUTPUT_PARTITIONS, OUTPUT_CONFIGS) as output,
    ):
        query = start(side, source, output)
        try:
            measured_from_ms = now_ms() + int(UNMEASURED_S * 1000)
            counted = _generate(side.server, source)
            seen = _all_counted(side.server, output, counted, query)
        finally:
            query.stop()
    late = [
        float(at_ms - update.last_event_ms)
        for at_ms, update in seen
        if update.last_event_ms >= measured_from_ms
    ]
    assert late, "no count changed while it was measured"
    return percentile(late, 0.99)


def _generate(server: Server, source: str) -> int:
    """In a separate process, so that it does not slow the driver."""
    host, port = server.address
    arguments = [host, str(port), source, str(PACED_EVENTS_A_SECOND), str(PACED_S)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.ad_events", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the generator failed: {done.stderr[-3000:]}")
    return int(json.loads(done.stdout)["counted"])


def _all_counted(server: Server, output: str, counted: int, query: Any) -> list[tuple[int, Update]]:
    until = time.monotonic() + PATIENCE_S
    while True:
        seen = updates(server, output)
        total = final_total([update for _, update in seen])
        if total == counted:
            return seen
        assert total < counted, f"{total} views were counted of {counted}"
        if query.exception() is not None:
            raise RuntimeError(f"the query failed: {query.exception()}")
        assert time.monotonic() < until, f"{total} of {counted} views were counted after {PATIENCE_S} s"
        time.sleep(0.5)


def filled(context: RunContext, server: Server, name: str) -> tuple[str, int]:
    """A topic of events, and the number of counted events."""

    def make() -> tuple[str, int]:
        topic = "spark-ad-events"
        topics.create(server, topic, PARTITIONS)
        generator = Generator()
        fill(server.address, topic, generator.spread(EVENTS, now_ms(), SPREAD_MS // 2), PARTITIONS)
        return topic, generator.counted

    return context.shared(("spark ad events", name), make)


def round_of(side: Side) -> dict[str, float]:
    return {"events": catch_up(side), "p99": paced(side)}


@row(
    "spark-yahoo",
    "Yahoo streaming benchmark, all of it ours: events a second",
    unit="events/s",
    value="events",
    goal=1,
    against=THEIRS,
    only_by_name=True,
)
@row(
    "spark-yahoo-p99",
    f"Yahoo streaming benchmark, all of it ours: event to count at {PACED_EVENTS_A_SECOND:,} events/s, 99 %",
    unit="ms",
    value="p99",
    higher_is_better=False,
    goal=1,
    against=THEIRS,
    only_by_name=True,
)
def yahoo(bench: Workbench) -> Mapping[str, Contender]:
    spark = spark_session(bench.context)
    table = spark.createDataFrame(list(ads().campaigns.items()), "ad_id string, campaign_id string").cache()
    bench.stack.callback(table.unpersist)
    numbers = itertools.count()
    contenders: dict[str, Contender] = {}
    for name, broker, form in ((OURS, OURS, OUR_FORMAT), (THEIRS, APACHE, THEIR_FORMAT)):
        server = spark_server(bench.context, broker)
        if server is not None:
            topic, counted = filled(bench.context, server, broker)
            side = Side(server, form, spark, table, topic, counted, bench.scratch, numbers)
            contenders[name] = partial(round_of, side)
    return contenders
