"""Windows over topics, with exact rows, stopped and started again.

All other windows, joins, transforms and aggregates are in tests/verify/spark/test_spark_windows.py: each
query costs seconds.
"""

# M-I2

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.windowed import AFTER, BEFORE, DELAY, EVENT, World, clock, event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def tumbling(events: DataFrame) -> DataFrame:
    """Count, sum, average and distinct values of each name in each minute."""
    from pyspark.sql import functions as f

    grouped = events.withWatermark("time", DELAY).groupBy(f.window("time", "1 minute"), "name")
    return grouped.agg(f.count("*"), f.sum("amount"), f.avg("amount"), f.size(f.collect_set("words"))).select(
        clock("window.start"), "name", "count(1)", "sum(amount)", "avg(amount)", "size(collect_set(words))"
    )


def test_windows_with_late_rows(
    spark: SparkSession, bootstrap: str, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    # M-I2
    world = World(spark, bootstrap, tmp_path, fresh_name)
    topic = world.topic()
    world.query("tumbling", lambda: tumbling(world.read(topic, EVENT)))
    world.write(topic, [event(*one) for one in BEFORE])
    assert world.run() == {"tumbling": [("00:00", "a", 1, 1, 1.0, 1), ("00:00", "b", 1, 5, 5.0, 1)]}
    world.write(topic, [event(*one) for one in AFTER])
    assert world.run() == {"tumbling": [("01:00", "a", 2, 10, 5.0, 2), ("02:00", "a", 1, 4, 4.0, 1)]}
