"""Two streaming queries from topic to topic, exactly once, at the same time; run as a program on any master.

One writes each row as it comes; the other counts them in windows, so it has state.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_A_BATCH = 2000
KINDS = 7


def rows(spark: SparkSession, bootstrap: str) -> DataFrame:
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
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


def main(master: str, bootstrap: str, output: str, folder: str, archive: str) -> None:
    from barnabas.spark import session

    conf = {"spark.sql.shuffle.partitions": "2"}
    if archive:
        conf |= {
            "spark.archives": f"{archive}#environment",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    spark = session("cluster", master, **conf)
    checkpoint = Path(folder)
    queries = [
        start(upper(rows(spark, bootstrap)), "append", bootstrap, output, checkpoint),
        start(counted(rows(spark, bootstrap)), "complete", bootstrap, f"{output}-counted", checkpoint),
    ]
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
