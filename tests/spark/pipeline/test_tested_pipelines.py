"""Pipelines under test (`PipelineTest`): rows in, micro-batches, rows out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.spark.pipeline import Pipeline, PipelineError
from barnabas.testing import Cluster, PipelineTest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pipeline = Pipeline("tested", settings={"least": "2"})


@pipeline.source
def lines(spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )


@pipeline.transform
def parsed(lines: DataFrame) -> DataFrame:
    return lines.selectExpr("CAST(value AS STRING) AS line").selectExpr(
        "try_cast(split(line, ' ')[0] AS INT) AS amount", "get(split(line, ' '), 1) AS what"
    )


@pipeline.transform
def large(parsed: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    return parsed.where("amount >= " + settings["least"]).select("what", "amount")


@pipeline.transform
def sums(parsed: DataFrame) -> DataFrame:
    return parsed.where("what IS NOT NULL").groupBy("what").sum("amount")


pipeline.to_parquet("large", of=large, path="/never/written")
pipeline.to("sums", of=sums, write=lambda writer, _: writer.format("never-written"), mode="update")


@pytest.fixture(scope="module")
def tested(spark: SparkSession) -> Iterator[PipelineTest]:
    with PipelineTest(pipeline, spark) as test:
        yield test


def test_rows_of_one_batch_and_state_of_many(tested: PipelineTest) -> None:
    tested.send("orders", "3 apples", "1 pears", "nonsense")
    rows = tested.run()
    assert rows["large"] == [("apples", 3)]
    assert sorted(rows["sums"]) == [("apples", 3), ("pears", 1)]
    tested.send("orders", "4 apples")
    # Only what is new is read, and what was counted is known.
    assert tested.run("sums") == {"sums": [("apples", 7)]}
    assert tested.run() == {"large": [("apples", 4)], "sums": []}
    assert pipeline.settings["bootstrap"] == "localhost:9092"
    assert not Path("/never").exists()


def test_settings_and_a_cluster_of_the_test(spark: SparkSession) -> None:
    with (
        Cluster(1) as cluster,
        PipelineTest(pipeline, spark, settings={"least": "1"}, topics=cluster) as test,
    ):
        cluster.topic("orders").send("1 pears")
        assert test.run("large") == {"large": [("pears", 1)]}


def test_an_unknown_sink_is_named(tested: PipelineTest) -> None:
    with pytest.raises(PipelineError, match="has no sink smal; there is large, sums"):
        tested.run("smal")
