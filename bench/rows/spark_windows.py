"""A streaming query counts records by key in windows of ten seconds, from a filled topic."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.registry import OURS, Contender, Workbench, row
from bench.servers import Server
from bench.spark import CONNECTOR, OUR_FORMAT, THEIR_FORMAT, ended, options, spark_server, spark_session
from bench.spark_topics import RECORDS, filled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MICRO_BATCHES = 4
WINDOW = "10 seconds"
# The time span of all records: partitions are not read in step, and no record may be late.
WATERMARK = "10 minutes"
PATIENCE_S = 240


def count_windows(
    spark: SparkSession, server: Server, topic: str, scratch: Path, numbers: Iterator[int], form: str
) -> float:
    """Records per second from the start of the query to its end."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    name = f"windows_{next(numbers)}"
    source_options = options(
        server,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(RECORDS // MICRO_BATCHES),
    )
    counts = (
        spark.readStream.format(form)
        .options(**source_options)
        .load()
        .withWatermark("timestamp", WATERMARK)
        .groupBy(F.window("timestamp", WINDOW), "key")
        .agg(F.count("*").alias("count"), F.sum(F.length("value")).alias("bytes"))
    )
    writer = counts.writeStream.outputMode("update").format("memory").queryName(name)
    began = time.perf_counter()
    query = writer.option("checkpointLocation", str(scratch / name)).trigger(availableNow=True).start()
    ended(query, PATIENCE_S)
    taken = time.perf_counter() - began
    # Every update of a count is in the table; the highest is the last.
    total = spark.sql(
        f"select sum(most) from (select max(count) as most from {name} group by window, key)"
    ).first()
    spark.catalog.dropTempView(name)
    assert total is not None
    assert total[0] == RECORDS, f"{total[0]} of {RECORDS} records were counted"
    return RECORDS / taken


@row(
    "spark-stream-windows",
    "A streaming query counts by key in windows of 10 s, RocksDB state",
    unit="rows/s",
    goal=1.1,
    floor=0.9,
    against=CONNECTOR,
    only_by_name=True,
)
def stream_windows(bench: Workbench) -> Mapping[str, Contender]:
    server = spark_server(bench.context, OURS)
    assert server is not None
    spark = spark_session(bench.context)
    topic = filled(bench.context, server)
    count = partial(count_windows, spark, server, topic, bench.scratch, itertools.count())
    return {OURS: partial(count, OUR_FORMAT), CONNECTOR: partial(count, THEIR_FORMAT)}
