"""An application on PySpark, and its tests (`pip install 'barnabas[spark]'`): counts of words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.spark import session

# PySpark leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def count_words(spark: SparkSession, servers: str, source: str, target: str, checkpoint: Path) -> None:
    """The application: processes what is there; the counts so far are in its checkpoint."""
    lines = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    words = lines.selectExpr("explode(split(CAST(value AS STRING), ' ')) AS word")
    counts = words.groupBy("word").count()

    def write(rows: DataFrame, _: int) -> None:
        values = rows.selectExpr("word AS key", "to_json(struct(word, count)) AS value")
        values.write.format("barnabas").option("kafka.bootstrap.servers", servers).option(
            "topic", target
        ).mode("append").save()

    query = counts.writeStream.outputMode("update").foreachBatch(write)
    query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.start().awaitTermination()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf: dict[str, Any] = {"spark.sql.shuffle.partitions": 1}
    made = session("word-counts", "local[2]", **conf)
    yield made
    made.stop()


def counts_in(records: list[Any]) -> dict[str, int]:
    return {record.json["word"]: record.json["count"] for record in records}


def test_words_are_counted(kafka: Any, spark: SparkSession, tmp_path: Path) -> None:
    lines, counts = kafka.topic("lines"), kafka.topic("counts")
    lines.send("to be or not to be")
    count_words(spark, kafka.bootstrap_servers, lines.name, counts.name, tmp_path)
    assert counts_in(counts.records(4)) == {"to": 2, "be": 2, "or": 1, "not": 1}


@pytest.mark.barnabas(brokers=3)
def test_counting_goes_on_although_a_leader_fails(cluster: Any, spark: SparkSession, tmp_path: Path) -> None:
    lines, counts = cluster.topic("lines"), cluster.topic("counts")
    lines.send("to be")
    count_words(spark, cluster.bootstrap_servers, "lines", "counts", tmp_path)
    with cluster.kill(cluster.leader("lines")).wait_election(60):
        lines.send("or not to be")
        count_words(spark, cluster.bootstrap_servers, "lines", "counts", tmp_path)
    assert counts_in(counts.records(6, timeout=60)) == {"to": 2, "be": 2, "or": 1, "not": 1}
