"""The whole of log aggregation, and what must come out of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client.admin.topics import NewTopic
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer
from barnabas.collect import Collector, FileSource
from barnabas.spark.logs import truth as true
from barnabas.spark.logs.generator import SERVICES, Generator, Shares, Truth
from barnabas.spark.logs.pipeline import TOPICS, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
WINDOW_MS = 60_000
# Collectors read files in turn, and partitions are read in turn: what is late here is what waited for that.
WATERMARK_MS = 600_000
FROM_LINES, FROM_COUNTS = ("bad", "counts", "failures"), ("alerts", "table")


def write_logs(
    folder: Path,
    seed: int,
    lines: int,
    start_ms: int,
    *,
    per_second: float = 100.0,
    shares: Shares | None = None,
) -> Truth:
    """A file for each service; the truth about all of them."""
    generator = Generator(
        seed, start_ms=start_ms, per_second=per_second, settled_lines=lines // 2, shares=shares
    )
    files = {service: (folder / f"{service}.log").open("wb") for service in SERVICES}
    for made in (generator.lines(lines), generator.rest()):
        for line in made:
            files[line.service].write(line.text + b"\n")
    for file in files.values():
        file.close()
    return generator.truth


def create_topics(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in TOPICS]).raise_first()


def collect(bootstrap: str, folder: Path, **properties: object) -> int:
    async def run() -> int:
        source = FileSource([str(folder / "*.log")], until_end=True)
        collector = Collector("logs", [source], {"bootstrap.servers": bootstrap, **properties})
        await collector.run()
        return collector.lines_written

    return asyncio.run(run())


def settings(bootstrap: str, folder: Path, lines_per_batch: int) -> dict[str, str]:
    return {
        "bootstrap": bootstrap,
        "checkpoint": str(folder / "checkpoints"),
        "table": str(folder / "table"),
        "window": f"{WINDOW_MS} milliseconds",
        "watermark": f"{WATERMARK_MS} milliseconds",
        "lines_per_batch": str(lines_per_batch),
    }


def run(
    spark: SparkSession,
    chosen: Mapping[str, str],
    steps: Sequence[Sequence[str]] = (FROM_LINES, FROM_COUNTS),
) -> None:
    """All of what is in the topic: first what reads lines, then what reads counts."""
    for only in steps:
        running = pipeline.start(spark, chosen, trigger="available-now", only=only)
        running.await_end()
        running.check()


def read(bootstrap: str, topic: str) -> list[bytes]:
    """Everything that is committed."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: list[bytes] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += [bytes(record.value) for record in consumer.poll(timeout_ms=500)]  # type: ignore[call-overload]
        return found


def compare(bootstrap: str, truth: Truth, table_rows: list[tuple[int, str, int]]) -> None:
    """Everything that came out equals what an independent recomputation gives."""
    assert sorted(read(bootstrap, "logs.bad")) == sorted(truth.bad)
    expected = compare_counts(bootstrap, truth)
    assert sorted(table_rows) == [(count.start_ms, count.service, count.lines) for count in expected]
    joined = [json.loads(value) for value in read(bootstrap, "logs.failures")]
    failures = [(row["trace"], row["request"], row["error"]) for row in joined]
    assert sorted(failures) == sorted(true.failures(truth.events))


def compare_counts(bootstrap: str, truth: Truth) -> list[true.Count]:
    """The counts and the alerts that follow from them; the counts as they must be."""
    expected = true.counts(truth.events, WINDOW_MS, truth.newest_ms - WATERMARK_MS)
    assert expected
    rows = [json.loads(value) for value in read(bootstrap, "logs.counts")]
    names = ("service", "owner", "lines", "requests", "errors", "duration_ms")
    counted = sorted((_ms(row["start"]), *(row[name] for name in names)) for row in rows)
    assert counted == [tuple(count) for count in expected]
    told = [json.loads(value) for value in read(bootstrap, "alerts")]
    alerts = sorted((_ms(row["since"]), row["service"], row["state"]) for row in told)
    assert alerts == sorted(true.alerts(expected, WINDOW_MS))
    return expected


def table_rows(spark: SparkSession, chosen: Mapping[str, str]) -> list[tuple[int, str, int]]:
    table = spark.read.parquet(chosen["table"])
    rows = table.selectExpr("unix_millis(start) AS start", "service", "lines").collect()
    return [(row["start"], row["service"], row["lines"]) for row in rows]


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
