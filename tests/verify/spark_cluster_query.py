"""A streaming query from topic to topic, exactly once; run as a program on any Spark master."""

from __future__ import annotations

import sys

ROWS_A_BATCH = 1000


def main(master: str, bootstrap: str, output: str, checkpoint: str, archive: str) -> None:
    from barnabas.spark import session

    conf: dict[str, str] = {}
    if archive:
        conf = {
            "spark.archives": f"{archive}#environment",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    spark = session("cluster", master, **conf)
    query = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .load()
        .selectExpr("key", "upper(cast(value as string)) as value")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", output)
        .option("deliveryGuarantee", "exactly-once")
        .option("sinkId", output)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
