"""Expectations of rows, and pipelines that are tried with rows.  # M-I2"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.client import TopicPartition
from barnabas.client.sync import Consumer
from barnabas.spark.pipeline import Pipeline, PipelineError
from barnabas.spark.pipeline.expectations import Met
from barnabas.spark.pipeline.graph import drawing
from barnabas.spark.pipeline.toml_file import pipeline_of
from barnabas.spark.pipeline.trying import Case, differences, read_cases, rows_of
from tests.spark.topics import create, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name = "orders"
[sources.lines]
topic = "{topic}"
[transforms.amounts]
sql = "SELECT try_cast(CAST(value AS STRING) AS INT) AS amount, CAST(value AS STRING) AS line FROM {{lines}}"
[expectations.short]
of = "lines"
where = "length(value) < 5"
otherwise = "dead-letter"
topic = "{topic}.bad"
[expectations.number]
of = "amounts"
where = "amount IS NOT NULL"
[expectations.small]
of = "amounts"
where = "amount < 100"
otherwise = "keep"
[sinks.amounts]
of = "amounts"
path = "{folder}/amounts"
every = "1 second"
"""


def pipeline_in(folder: Path, topic: str = "orders") -> Pipeline:
    path = folder / "orders.toml"
    path.write_text(PIPELINE.format(topic=topic, folder=folder), "utf-8")
    return pipeline_of(path)


def test_a_part_with_expectations_is_two(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    assert pipeline.parts["amounts"].takes == ("amounts (all)",)
    assert "topic orders.bad, exactly once" in "\n".join(drawing(pipeline, pipeline.settings))
    assert pipeline.sinks["amounts"].every == "1 second"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('otherwise = "keep"', 'otherwise = "kep"'), "'kep' is none of keep, drop, dead-letter, stop"),
        (
            ('of = "amounts"\nwhere = "amount <', 'of = "amout"\nwhere = "amount <'),
            "takes amout, which is not defined",
        ),
        (('otherwise = "keep"', 'topic = "x"'), "only dead letters have a topic"),
        (('topic = "orders.bad"\n', ""), "a topic is needed for dead letters"),
    ],
)
def test_wrong_expectations_are_refused(change: tuple[str, str], problem: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.toml"
    path.write_text(PIPELINE.format(topic="orders", folder="x").replace(*change), "utf-8")
    with pytest.raises(PipelineError, match=problem):
        pipeline_of(path)


def test_rows_in_and_rows_out(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    given = {"lines": [{"value": text} for text in ("3", "x", "500", "too long")]}

    def rows(of: str) -> list[dict[str, object]]:
        return rows_of(pipeline, spark, of, given, pipeline.settings)

    assert [row["amount"] for row in rows("amounts")] == [3, 500]
    (bad,) = rows("lines (not short)")
    assert bad["value"] == b"too long"
    assert bad["headers"] == [
        {"key": "expectation", "value": b"short"},
        {"key": "position", "value": b"lines-0-3"},
    ]
    with pytest.raises(PipelineError, match="needs rows of the source lines"):
        rows_of(pipeline, spark, "amounts", {}, pipeline.settings)


def test_an_expectation_can_stop_the_pipeline(spark: SparkSession) -> None:
    pipeline = Pipeline("p")
    pipeline.source(lambda spark: spark)
    pipeline.parts["x"] = pipeline.parts.pop("<lambda>")
    pipeline.expect("positive", of="x", where="n > 0", otherwise="stop")
    assert rows_of(pipeline, spark, "x", {"x": [{"n": 1}]}, {}) == [{"n": 1}]
    with pytest.raises(Exception, match=r'the expectation positive is not met by \{"n":-1\}'):
        rows_of(pipeline, spark, "x", {"x": [{"n": 1}, {"n": -1}]}, {})


def test_cases_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "cases.toml"
    path.write_text(
        '[[cases]]\nname = "c"\nof = "x"\ngiven.l = [{ value = "a" }]\nexpect = [{ n = 1 }, { n = 2 }]\n'
    )
    (case,) = read_cases(path)
    assert case == Case("c", "x", {"l": [{"value": "a"}]}, [{"n": 1}, {"n": 2}])
    assert differences(case, [{"n": 2, "m": 0}, {"n": 1, "m": 0}]) == []
    assert differences(case, [{"n": 1}, {"n": 3}]) == ['missing: {"n": 2}', 'unexpected: {"n": 3}']
    assert differences(Case("c", "x", {}, []), [{"n": 1}]) == ['unexpected: {"n": 1}']
    path.write_text("cases = 1\n")
    with pytest.raises(PipelineError, match="it is not a list of tables"):
        read_cases(path)


def test_counts_and_dead_letters_of_a_stream(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    create(bootstrap, f"{topic}.bad")
    produce(bootstrap, topic, [b"3", b"x", b"500", b"too long"])
    settings = {"bootstrap": bootstrap, "checkpoint": str(tmp_path / "checkpoints")}
    running = pipeline_in(tmp_path, topic).start(spark, settings, trigger="available-now")
    assert running.await_end(600)
    (counts,) = (progress.expectations for progress in running.progress() if progress.name == "amounts")
    assert counts == {"short": Met(4, 1), "number": Met(3, 1), "small": Met(3, 2)}
    assert sorted(row.amount for row in spark.read.parquet(f"{tmp_path}/amounts").collect()) == [3, 500]
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(f"{topic}.bad", 0)])
        (record,) = consumer.poll(timeout_ms=60_000)
    assert (record.value, dict(record.headers)["position"]) == (b"too long", f"{topic}-0-3".encode())
