"""Windows, joins, transforms and aggregates over topics: what tests/spark/test_windows.py leaves out, each with
exact rows, stopped and started again."""

# M-I2

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.conftest import bootstrap, broker_folder, fresh_name, spark
from tests.spark.windowed import AFTER, BEFORE, DELAY, EVENT, TIMED, World, clock, event

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

OWNERS = [("a", "ann"), ("b", "bob")]

__all__ = ["bootstrap", "broker_folder", "fresh_name", "spark"]

pytestmark = [
    # PySpark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def sliding(events: DataFrame) -> DataFrame:
    """A minute, every half minute."""
    from pyspark.sql import functions as f

    windows = f.window("time", "1 minute", "30 seconds")
    grouped = events.withWatermark("time", DELAY).groupBy(windows, "name")
    return grouped.count().select(clock("window.start"), "name", "count")


def sessions(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    grouped = events.withWatermark("time", DELAY).groupBy(f.session_window("time", "15 seconds"), "name")
    return grouped.count().select("name", clock("session_window.start"), clock("session_window.end"), "count")


def distinct(events: DataFrame) -> DataFrame:
    """Every word when it is first seen."""
    return events.selectExpr("explode(split(words, ' ')) AS word").dropDuplicates(["word"])


def mapped(events: DataFrame) -> DataFrame:
    """A flatMap in Python: a row for each word."""

    def words(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for frame in frames:
            rows = [(row.name, word) for row in frame.itertuples(index=False) for word in row.words.split()]
            yield pd.DataFrame(rows, columns=["name", "word"])

    return events.where("amount < 100").select("name", "words").mapInPandas(words, "name string, word string")


def changed(events: DataFrame) -> DataFrame:
    """What changed since the batch before: count, sum and average of all that came."""
    from pyspark.sql import functions as f

    return events.groupBy("name").agg(f.count("*"), f.sum("amount"), f.avg("amount"))


def totals(events: DataFrame) -> DataFrame:
    """Keyed state: what has come of each name so far."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Total(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._total = handle.getValueState("total", "total long")

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,
            rows: Iterator[pd.DataFrame],
            timerValues: Any,  # noqa: N803
        ) -> Iterator[pd.DataFrame]:
            import pandas as pd

            known = self._total.get() if self._total.exists() else None
            total = (known[0] if known is not None else 0) + sum(int(frame.amount.sum()) for frame in rows)
            self._total.update((total,))
            yield pd.DataFrame({"name": [key[0]], "total": [total]})

        def close(self) -> None:
            pass

    return events.groupBy("name").transformWithStateInPandas(
        statefulProcessor=Total(),
        outputStructType="name string, total long",
        outputMode="Append",
        timeMode="None",
    )


def joined(requests: DataFrame, answers: DataFrame, how: str) -> DataFrame:
    """Requests with the answers that came within a minute."""
    from pyspark.sql import functions as f

    asked = requests.withWatermark("time", DELAY).select("id", f.col("time").alias("asked"))
    answered = answers.withWatermark("time", DELAY).select(
        f.col("id").alias("answer"), f.col("time").alias("answered")
    )
    near = "id = answer AND answered >= asked AND answered <= asked + INTERVAL 1 MINUTE"
    return asked.join(answered, f.expr(near), how).select("id", "answer", clock("answered"))


def latest(records: DataFrame) -> DataFrame:
    """A compacted topic as a table: the last value of each key, without those that were deleted."""
    from pyspark.sql import functions as f

    last = records.groupBy(f.col("key").cast("string").alias("name")).agg(
        f.max_by(f.struct(f.col("value").cast("string").alias("price")), "offset").alias("last")
    )
    return last.select("name", "last.price").where("price IS NOT NULL")


def enriched(events: DataFrame, owners: DataFrame, prices: DataFrame) -> DataFrame:
    """Map, filter and flatMap, then a join with a table that stays and one that is a topic."""
    from pyspark.sql import functions as f

    words = events.where("amount > 1").select(
        "name", f.col("amount") * 10, f.explode(f.split(f.upper("words"), " ")).alias("word")
    )
    return (
        words.join(owners, "name")
        .join(prices, "name", "left")
        .select("name", "(amount * 10)", "word", "owner", "price")
    )


def test_windows_joins_and_aggregates(
    spark: SparkSession, bootstrap: str, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    world = World(spark, bootstrap, tmp_path, fresh_name)
    topic, requests, answers = world.topic(), world.topic(), world.topic()

    def over_topic(query: Callable[[Any], Any]) -> Any:
        return query(world.read(topic, EVENT))

    def over_both(how: str) -> Any:
        return joined(world.read(requests, TIMED), world.read(answers, TIMED), how)

    for name, query in {
        "sliding": sliding,
        "sessions": sessions,
        "distinct": distinct,
        "mapped": mapped,
    }.items():
        world.query(name, partial(over_topic, query))
    world.query("totals", lambda: totals(world.read(topic, EVENT)))
    world.query("changed", lambda: changed(world.read(topic, EVENT)), "update")
    for how in ("inner", "full_outer"):
        world.query(how, partial(over_both, how))

    world.write(topic, [event(*one) for one in BEFORE])
    world.write_times(requests, {"r1": "00:10", "r2": "00:20"})
    world.write_times(answers, {"r1": "00:40", "x": "00:41"})
    assert world.run() == {
        "sliding": [("00:00", "a", 1), ("00:00", "b", 1), ("00:30", "b", 1), ("59:30", "a", 1)],
        "sessions": [("a", "00:10", "00:25", 1), ("b", "00:30", "00:45", 1)],
        "distinct": [("x",), ("y",)],
        "mapped": [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")],
        "totals": [("a", 7), ("b", 5)],
        "changed": [("a", 3, 7, 7 / 3), ("b", 1, 5, 5.0)],
        "inner": [("r1", "r1", "00:40")],
        "full_outer": [("r1", "r1", "00:40")],
    }

    world.write(topic, [event(*one) for one in AFTER])
    world.write_times(requests, {"r3": "01:00", "r4": "10:00"})
    world.write_times(answers, {"r2": "00:50", "r4": "10:05"})
    assert world.run() == {
        "sliding": [("01:00", "a", 2), ("01:30", "a", 3), ("02:00", "a", 1)],
        "sessions": [("a", "01:45", "02:05", 2), ("a", "02:10", "02:25", 1)],
        "distinct": [("z",)],
        "mapped": [("a", "x"), ("b", "z")],
        "totals": [("a", 115), ("b", 12)],
        # Without a watermark nothing is ever too late.
        "changed": [("a", 5, 115, 23.0), ("b", 2, 12, 6.0)],
        "inner": [("r2", "r2", "00:50"), ("r4", "r4", "10:05")],
        # Nobody asked for x, and nobody answered r3.
        "full_outer": [
            ("r2", "r2", "00:50"),
            ("r3", None, None),
            ("r4", "r4", "10:05"),
            (None, "x", "00:41"),
        ],
    }


def test_transforms_and_joins_with_tables(
    spark: SparkSession, bootstrap: str, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    world = World(spark, bootstrap, tmp_path, fresh_name)
    topic, requests, answers = world.topic(), world.topic(), world.topic()
    prices = world.topic(cleanup_policy="compact")
    owners = spark.createDataFrame(OWNERS, "name string, owner string")
    world.query("enriched", lambda: enriched(world.read(topic, EVENT), owners, latest(world.table(prices))))
    world.query(
        "outer", lambda: joined(world.read(requests, TIMED), world.read(answers, TIMED), "left_outer")
    )

    world.write_keyed(prices, {"a": "10", "b": "20"})
    world.write(topic, [event(*one) for one in BEFORE])
    world.write_times(requests, {"r1": "00:10", "r2": "00:20"})
    world.write_times(answers, {"r1": "00:40"})
    assert world.run() == {
        "enriched": [
            ("a", 20, "X", "ann", "10"),
            ("a", 20, "Y", "ann", "10"),
            ("a", 40, "X", "ann", "10"),
            ("b", 50, "X", "bob", "20"),
        ],
        "outer": [("r1", "r1", "00:40")],
    }

    world.write_keyed(prices, {"a": "11", "b": None})
    world.write(topic, [event(*one) for one in AFTER])
    world.write_times(requests, {"r3": "01:00", "r4": "10:00"})
    world.write_times(answers, {"r2": "00:50", "r4": "10:05"})
    assert world.run() == {
        "enriched": [
            ("a", 1000, "X", "ann", "11"),
            ("a", 80, "X", "ann", "11"),
            ("b", 70, "Z", "bob", None),
        ],
        # r2 was asked for before the restart; nobody can answer r3 any more.
        "outer": [("r2", "r2", "00:50"), ("r3", None, None), ("r4", "r4", "10:05")],
    }
