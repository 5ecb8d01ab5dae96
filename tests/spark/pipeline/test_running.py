"""Pipelines that run: from a topic to a topic and to files, stopped and started again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.cli.pipeline.status import status_rows
from barnabas.client import TopicPartition
from barnabas.client.sync import Consumer
from barnabas.spark.pipeline import Pipeline, PipelineError, load
from barnabas.spark.pipeline.starting import AVAILABLE_NOW
from tests.spark.topics import create, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 600
TOML = """
name = "orders"

[settings]
topic = "?"
output = "?"
table = "?"
least = 2

[sources.lines]
topic = "{topic}"

[transforms.parsed]
sql = "SELECT split(CAST(value AS STRING), ' ')[1] AS what, try_cast(split(CAST(value AS STRING), ' ')[0] AS INT) AS amount FROM {lines}"

[transforms.large]
sql = "SELECT * FROM {parsed} WHERE amount >= CAST({least} AS INT)"

[transforms.counts]
sql = "SELECT what AS key, to_json(struct(what, sum(amount) AS amount)) AS value FROM {parsed} GROUP BY what"

[sinks.counts]
of = "counts"
topic = "{output}"
mode = "update"
exactly_once = true

[sinks.large]
of = "large"
path = "{table}"
"""


def read(bootstrap: str, topic: str) -> list[tuple[str, int]]:
    """The committed records, in order."""
    partition = TopicPartition(topic, 0)
    results: list[tuple[str, int]] = []
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(timeout_ms=1000):
                assert isinstance(record.value, bytes)
                row = json.loads(record.value)
                results.append((row["what"], row["amount"]))
    return results


def test_a_pipeline_continues_from_its_checkpoint(
    spark: SparkSession, bootstrap: str, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    topic, counts = fresh_name(), fresh_name()
    create(bootstrap, topic)
    create(bootstrap, counts)
    (tmp_path / "orders.toml").write_text(TOML, "utf-8")
    pipeline = load(tmp_path / "orders.toml")
    settings = pipeline.settings_with(
        {
            "bootstrap": bootstrap,
            "checkpoint": str(tmp_path / "checkpoint"),
            "topic": topic,
            "output": counts,
            "table": str(tmp_path / "table"),
        }
    )

    produce(bootstrap, topic, [b"3 apples", b"1 pear", b"2 apples"])
    running = pipeline.start(spark, settings, trigger=AVAILABLE_NOW)
    assert running.await_end(PATIENCE_S)
    assert {one.name: (one.batch, one.total_rows, one.lag) for one in running.progress()} == {
        "counts": (0, 3, 0),
        "large": (0, 3, 0),
    }
    assert sorted(read(bootstrap, counts)) == [("apples", 5), ("pear", 1)]

    # Once more without an end of its own, stopped cleanly.
    produce(bootstrap, topic, [b"4 pears", b"7 apples"])
    rows, problem = status_rows(pipeline, settings, tmp_path / "checkpoint")
    assert problem == ""
    assert [(row["sink"], row["state"], row["batch"], row["lag"]) for row in rows] == [
        ("counts", "stopped", 0, 2),
        ("large", "stopped", 0, 2),
    ]
    running = pipeline.start(spark, settings)
    while any(
        query.lastProgress is None or query.lastProgress["batchId"] < 1 for query in running.queries.values()
    ):
        running.wait(0.2)
        running.check()
    running.stop()
    assert not running.is_active
    assert sorted(read(bootstrap, counts)) == [("apples", 5), ("apples", 12), ("pear", 1), ("pears", 4)]
    table = spark.read.parquet(settings["table"])
    assert sorted(map(tuple, table.collect())) == [("apples", 2), ("apples", 3), ("apples", 7), ("pears", 4)]
    rows, _ = status_rows(pipeline, settings, tmp_path / "checkpoint")
    assert [(row["batch"], row["lag"]) for row in rows] == [(1, 0), (1, 0)]

    # Another topic is another source: its offsets would mean nothing.
    with pytest.raises(PipelineError, match=rf"but its checkpoint .* read lines \({topic}\).*pipeline reset"):
        pipeline.start(spark, {**settings, "topic": counts})
    # Without the checkpoint Spark would restart batch numbers, and the list of files has those numbers.
    with pytest.raises(PipelineError, match=r"Spark would skip as many batches as .*_spark_metadata lists"):
        pipeline.start(spark, {**settings, "checkpoint": str(tmp_path / "new")})


def test_results_of_parts_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Pipeline("wrong", checkpoint=str(tmp_path / "checkpoint"))

    @pipeline.source
    def still(spark: SparkSession) -> object:
        return spark.range(3)

    @pipeline.table
    def moving(spark: SparkSession) -> object:
        return spark.readStream.format("rate").load()

    @pipeline.source
    def rate(spark: SparkSession) -> object:
        return spark.readStream.format("rate").load()

    @pipeline.transform
    def nothing(rate: object) -> object:
        return None

    @pipeline.table
    def few(spark: SparkSession) -> object:
        return spark.range(3)

    @pipeline.transform
    def misspelt(few: object) -> object:
        return few.select("idd")  # type: ignore[attr-defined]

    for name in ("still", "moving", "nothing", "few", "misspelt"):
        pipeline.to_parquet(name, of=name, path=str(tmp_path / name))
    for name, said in {
        "still": "the source still is not a stream; read it with spark.readStream",
        "moving": "the table moving is a stream; read it with spark.read",
        "nothing": "the transform nothing returns NoneType; it must return a DataFrame",
        "few": "few: few is a table; a sink needs rows of a source",
        "misspelt": "the transform misspelt: .*idd",
        "else": "wrong has no sink else; there is still, moving, nothing, few, misspelt",
    }.items():
        with pytest.raises(PipelineError, match=said):
            pipeline.start(spark, only=[name])
