"""The whole log aggregation, and its expected results."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client.admin.topics import NewTopic
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer
from barnabas.collect import Collector, FileSource
from barnabas.spark.logs.pipeline import TOPICS, pipeline
from barnabas.testing.logs import truth as true
from barnabas.testing.logs.formats import CONFIG
from barnabas.testing.logs.generator import OWNERS, SERVICES, Generator, Line, Shares, Truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
WINDOW_MS = 60_000
WATERMARK_MS = 600_000
# What services write before the collector has caught up.
SLICE_S = 200
PATIENCE_S = 120
# The number of differing rows of each kind that are shown.
SHOWN = 5
STEPS = (("parsed",), ("counts", "templates", "failures"), ("alerts", "table"))


class LogFiles:
    """A file for each service, which grow as the services write."""

    def __init__(self, folder: Path, generator: Generator) -> None:
        folder.mkdir()
        self.pattern = str(folder / "*.log")
        self._generator = generator
        # Unbuffered: readers must not wait for a buffer.
        self._files = {service: (folder / f"{service}.log").open("wb", 0) for service in SERVICES}

    def write(self, lines: int) -> None:
        self._append(self._generator.lines(lines))

    def end(self) -> None:
        """What is still on its way."""
        self._append(self._generator.rest())
        for file in self._files.values():
            file.close()

    def _append(self, made: Iterable[Line]) -> None:
        texts: dict[str, list[bytes]] = {service: [] for service in SERVICES}
        for line in made:
            texts[line.service].append(line.text + b"\n")
        for service, file in self._files.items():
            file.write(b"".join(texts[service]))


def create_topics(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in TOPICS]).raise_first()


def write_and_collect(
    bootstrap: str,
    folder: Path,
    seed: int,
    lines: int,
    start_ms: int,
    *,
    per_second: int = 100,
    shares: Shares | None = None,
) -> Truth:
    """Lines of services through files to the topic, as they happen; the truth about them.

    A collector that finds long files reads a piece of each in turn, and a piece holds twice as much time of a
    service with short lines as of one with long lines: the longer the files, the later some lines.  So what
    is written before the collector has caught up is much less than the watermark waits for.  And a query
    reads an equal share of every partition, so that partitions have to grow equally fast too.
    """
    generator = Generator(
        seed, start_ms=start_ms, per_second=per_second, settled_lines=lines // 2, shares=shares
    )
    files = LogFiles(folder, generator)

    async def run() -> None:
        properties = {"bootstrap.servers": bootstrap, "partitioner.class": "round_robin"}
        collector = Collector("logs", [FileSource([files.pattern])], properties)
        running = asyncio.ensure_future(collector.run())
        for left in range(lines, 0, -per_second * SLICE_S):
            files.write(min(left, per_second * SLICE_S))
            await _written(collector, running, generator.truth.lines)
        files.end()
        await _written(collector, running, generator.truth.lines)
        collector.stop()
        await running
        assert collector.lines_written == generator.truth.lines

    asyncio.run(run())
    return generator.truth


async def _written(collector: Collector, running: asyncio.Future[None], lines: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while collector.lines_written < lines:
            if running.done():
                running.result()
                raise AssertionError("the collector has ended")
            await asyncio.sleep(0.01)


def settings(bootstrap: str, folder: Path, lines_per_batch: int) -> dict[str, str]:
    config = folder / "logs.toml"
    owners = "".join(f'{service} = "{owner}"\n' for service, owner in OWNERS.items())
    config.write_text(f"{CONFIG}[owners]\n{owners}", "utf-8")
    return {
        "config": str(config),
        "id": "id",
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
    steps: Sequence[Sequence[str]] = STEPS,
) -> None:
    """All of what is in the topic: first what reads lines, then what reads parsed lines, then counts."""
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
        results: list[bytes] = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            results += [bytes(record.value) for record in consumer.poll(timeout_ms=500)]
        return results


def compare(bootstrap: str, truth: Truth, table_rows: list[tuple[int, str, int]]) -> None:
    """Everything that came out equals what an independent recomputation gives."""
    bad = [(value,) for value in read(bootstrap, "logs.bad")]
    assert_same("bad lines", bad, [(line,) for line in truth.bad], key=1)
    assert len(read(bootstrap, "logs.late")) == truth.hopeless
    expected = compare_counts(bootstrap, truth)
    in_table = [(count.start_ms, count.service, count.lines) for count in expected]
    assert_same("rows of the table", table_rows, in_table, key=2)
    failed = true.failures(truth.events, truth.newest_ms - WATERMARK_MS)
    joined = [json.loads(value) for value in read(bootstrap, "logs.failures")]
    failures = [(row["trace"], row["request"], row["error"]) for row in joined]
    assert_same("failures", failures, failed, key=1)


def compare_counts(bootstrap: str, truth: Truth) -> list[true.Count]:
    """The counts and the alerts that follow from them; the counts as they must be."""
    expected = true.counts(truth.events, WINDOW_MS, truth.newest_ms - WATERMARK_MS)
    assert expected
    rows = [json.loads(value) for value in read(bootstrap, "logs.counts")]
    names = ("service", "owner", "lines", "requests", "errors", "duration_ms")
    counted = [(_ms(row["start"]), *(row[name] for name in names)) for row in rows]
    assert_same("counts", counted, [tuple(count) for count in expected], key=2)
    for service in SERVICES:
        # In the order of time, or a reader whose batch ends between two windows would take the later one
        # first.
        starts = [_ms(row["start"]) for row in rows if row["service"] == service]
        assert starts == sorted(starts)
    alert_rows = [json.loads(value) for value in read(bootstrap, "alerts")]
    alerts = [(_ms(row["since"]), row["service"], row["state"]) for row in alert_rows]
    assert_same("alerts", alerts, true.alerts(expected, WINDOW_MS), key=2)
    return expected


def assert_same(
    what: str, found: Iterable[tuple[object, ...]], expected: Iterable[tuple[object, ...]], *, key: int
) -> None:
    """Compare rows as multisets; the first `key` columns identify a row."""
    have, want = Counter(found), Counter(expected)
    lost, more = sorted((want - have).elements(), key=repr), sorted((have - want).elements(), key=repr)
    if not lost and not more:
        return
    more_by_key = {row[:key]: row for row in more}
    lost_keys = {row[:key] for row in lost}
    differences: dict[str, Sequence[object]] = {
        "missing": [row for row in lost if row[:key] not in more_by_key],
        "come more than once": [row for row in more if row in want],
        "surplus": [row for row in more if row not in want and row[:key] not in lost_keys],
        "different (as it must be, as it is)": [
            (row, more_by_key[row[:key]]) for row in lost if row[:key] in more_by_key
        ],
    }
    lines = [f"{what}: {have.total()} instead of {want.total()}"]
    lines += [f"{len(rows)} {name}: {rows[:SHOWN]}" for name, rows in differences.items() if rows]
    raise AssertionError("\n  ".join(lines))


def table_rows(spark: SparkSession, chosen: Mapping[str, str]) -> list[tuple[int, str, int]]:
    table = spark.read.parquet(chosen["table"])
    rows = table.selectExpr("unix_millis(start) AS start", "service", "lines").collect()
    return [(row["start"], row["service"], row["lines"]) for row in rows]


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
