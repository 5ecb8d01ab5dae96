"""Streaming queries from topic to topic, exactly once; run as a program on any master.

Two at the same time: one writes each row as it comes; the other counts them in windows, so it has state.  Or
one whose tasks are slow where they run first, for Spark to start a second copy of them (speculation).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_A_BATCH = 2000
KINDS = 7
# Each batch takes seconds here, so there are fewer.
SLOW_ROWS_A_BATCH = 5000
# Longer than the test waits.
NEVER_S = 3600
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "1s",
}


def rows(spark: SparkSession, bootstrap: str, most: int = ROWS_A_BATCH) -> DataFrame:
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .load()
    )


def upper(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("key", "upper(cast(value as string)) as value")


def counted(rows: DataFrame) -> DataFrame:
    """How many rows each second has of each kind."""
    from pyspark.sql import functions as f

    kind = (f.col("key").cast("string").cast("int") % KINDS).alias("kind")
    return (
        rows.groupBy(f.window("timestamp", "1 second"), kind)
        .count()
        .selectExpr(
            "concat_ws('/', unix_seconds(window.start), kind) as key", "cast(count as string) as value"
        )
    )


def slow_at_first(rows: DataFrame) -> DataFrame:
    """A task of every batch hands on all its rows and then does not end, unless it is a second copy."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(NEVER_S)

    return rows.mapInArrow(run, rows.schema)


def start(rows: DataFrame, mode: str, bootstrap: str, topic: str, checkpoint: Path) -> StreamingQuery:
    return (
        rows.writeStream.format("barnabas")
        .outputMode(mode)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("deliveryGuarantee", "exactly-once")
        .option("sinkId", topic)
        .option("checkpointLocation", str(checkpoint / topic))
        .trigger(availableNow=True)
        .start()
    )


def main(master: str, bootstrap: str, output: str, folder: str, archive: str, kind: str) -> None:
    from barnabas.spark import session

    conf = {"spark.sql.shuffle.partitions": "2", **(SPECULATION if kind == "speculation" else {})}
    if archive:
        conf |= {
            "spark.archives": f"{archive}#environment",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    spark = session("cluster", master, **conf)
    checkpoint = Path(folder)
    if kind == "speculation":
        slow = slow_at_first(upper(rows(spark, bootstrap, SLOW_ROWS_A_BATCH)))
        queries = [start(slow, "append", bootstrap, output, checkpoint)]
    else:
        counts = counted(rows(spark, bootstrap))
        queries = [
            start(upper(rows(spark, bootstrap)), "append", bootstrap, output, checkpoint),
            start(counts, "complete", bootstrap, f"{output}-counted", checkpoint),
        ]
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
