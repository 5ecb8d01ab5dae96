"""A small world for tests of queries: topics of JSON lines, written in steps, and queries run over each step.

Every run is one of the queries from their checkpoints to the end of what is there (`availableNow`), so each
query is stopped and started again in mid-stream, with its state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.topics import create, finished, produce

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVENT = "name string, time timestamp, amount int, words string"
# Before and after the restart.  The watermark is 30 seconds behind the latest: at 01:40, then at 03:30.
BEFORE = [("a", "00:10", 1, "x"), ("b", "00:30", 5, "x"), ("a", "01:45", 2, "y x"), ("a", "02:10", 4, "x")]
AFTER = [
    # Late, but its windows are still open.
    ("a", "01:50", 8, "x"),
    # Too late: its window has been written.
    ("a", "00:55", 100, "x"),
    ("b", "04:00", 7, "z"),
]
DELAY = "30 seconds"
TIMED = "id string, time timestamp"


def at(time: str) -> str:
    """`"01:30"` is a minute and a half past noon."""
    return f"2026-01-01 12:{time}"


def event(name: str, time: str, amount: int, words: str) -> dict[str, Any]:
    return {"name": name, "time": at(time), "amount": amount, "words": words}


def clock(column: str) -> Column:
    """The minute and second of a time."""
    from pyspark.sql import functions as f

    return f.date_format(column, "mm:ss")


@dataclass
class Query:
    """A streaming query under test, and the rows that it gave so far."""

    # Created for each run, as by a restarted program.
    rows: Callable[[], DataFrame]
    mode: str = "append"
    # A batch that is run again gives the same rows again.
    seen: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    reported: int = -1

    def take(self, frame: DataFrame, batch: int) -> None:
        self.seen[batch] = [tuple(row) for row in frame.collect()]

    def taken(self) -> list[tuple[Any, ...]]:
        """New rows since the last call, in a fixed order."""
        rows = [
            row
            for batch, rows_of_batch in self.seen.items()
            if batch > self.reported
            for row in rows_of_batch
        ]
        self.reported = max(self.seen, default=-1)
        return sorted(rows, key=repr)


class World:
    """Topics, and queries over them."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, name: Callable[[], str]) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self._folder = folder
        self._name = name
        self.queries: dict[str, Query] = {}

    def topic(self, **configs: Any) -> str:
        made = self._name()
        create(self.bootstrap, made, **configs)
        return made

    def write(self, topic: str, rows: Sequence[dict[str, Any]]) -> None:
        produce(self.bootstrap, topic, [json.dumps(row).encode() for row in rows])

    def write_times(self, topic: str, times: dict[str, str]) -> None:
        self.write(topic, [{"id": name, "time": at(time)} for name, time in times.items()])

    def write_keyed(self, topic: str, values: dict[str, str | None]) -> None:
        """As to a compacted topic; None deletes."""
        for key, value in values.items():
            produce(self.bootstrap, topic, [None if value is None else value.encode()], key=key.encode())

    def read(self, topic: str, schema: str) -> DataFrame:
        """A stream of the topic's JSON; of records whose time counts, `time` is a timestamp."""
        from pyspark.sql import functions as f

        frame = (
            self.spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        return frame.select(f.from_json(f.col("value").cast("string"), schema).alias("row")).select("row.*")

    def table(self, topic: str) -> DataFrame:
        """The records of a topic as they are now."""
        return (
            self.spark.read.format("barnabas")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", topic)
            .load()
        )

    def query(self, name: str, rows: Callable[[], DataFrame], mode: str = "append") -> None:
        self.queries[name] = Query(rows, mode)

    def run(self) -> dict[str, list[tuple[Any, ...]]]:
        """All queries at once, from their checkpoints to the end of what is there: the rows of each."""
        with ThreadPoolExecutor(len(self.queries)) as pool:
            for one in [pool.submit(self._run, name, query) for name, query in self.queries.items()]:
                one.result()
        return {name: query.taken() for name, query in self.queries.items()}

    def _run(self, name: str, query: Query) -> None:
        writer = (
            query.rows()
            .writeStream.outputMode(query.mode)
            .foreachBatch(query.take)
            .option("checkpointLocation", str(self._folder / name))
            .trigger(availableNow=True)
        )
        finished(writer.start)
