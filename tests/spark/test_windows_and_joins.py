"""Windows, joins, transforms and aggregates over topics, with exact rows, stopped and started again.

The other half is in tests/verify/test_spark_windows.py.
"""

# M-I2

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.windowed import AFTER, BEFORE, DELAY, EVENT, TIMED, World, clock, event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWNERS = [("a", "ann"), ("b", "bob")]


def tumbling(events: DataFrame) -> DataFrame:
    """Count, sum, average and distinct values of each name in each minute."""
    from pyspark.sql import functions as f

    grouped = events.withWatermark("time", DELAY).groupBy(f.window("time", "1 minute"), "name")
    return grouped.agg(f.count("*"), f.sum("amount"), f.avg("amount"), f.size(f.collect_set("words"))).select(
        clock("window.start"), "name", "count(1)", "sum(amount)", "avg(amount)", "size(collect_set(words))"
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


def told(events: DataFrame, owners: DataFrame, prices: DataFrame) -> DataFrame:
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


def test_windows_joins_and_transforms(
    spark: SparkSession, bootstrap: str, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    world = World(spark, bootstrap, tmp_path, fresh_name)
    topic, requests, answers = world.topic(), world.topic(), world.topic()
    prices = world.topic(cleanup_policy="compact")
    owners = spark.createDataFrame(OWNERS, "name string, owner string")
    world.query("tumbling", lambda: tumbling(world.read(topic, EVENT)))
    world.query("told", lambda: told(world.read(topic, EVENT), owners, latest(world.table(prices))))
    world.query(
        "outer", lambda: joined(world.read(requests, TIMED), world.read(answers, TIMED), "left_outer")
    )

    world.write_keyed(prices, {"a": "10", "b": "20"})
    world.write(topic, [event(*one) for one in BEFORE])
    world.write_times(requests, {"r1": "00:10", "r2": "00:20"})
    world.write_times(answers, {"r1": "00:40"})
    assert world.run() == {
        "tumbling": [("00:00", "a", 1, 1, 1.0, 1), ("00:00", "b", 1, 5, 5.0, 1)],
        "told": [
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
        "tumbling": [("01:00", "a", 2, 10, 5.0, 2), ("02:00", "a", 1, 4, 4.0, 1)],
        "told": [
            ("a", 1000, "X", "ann", "11"),
            ("a", 80, "X", "ann", "11"),
            ("b", 70, "Z", "bob", None),
        ],
        # r2 was asked for before the restart; nobody can answer r3 any more.
        "outer": [("r2", "r2", "00:50"), ("r3", None, None), ("r4", "r4", "10:05")],
    }
