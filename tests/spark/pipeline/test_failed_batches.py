"""Batches and queries that fail in Java: each query ends, and with its reason."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.spark.pipeline import Pipeline, PipelineError, patience
from barnabas.spark.pipeline.batches import JAVA_ERROR, PROXY_LOGGER, BatchError, let_batches_tell, told
from barnabas.spark.pipeline.running import STOPPED
from barnabas.spark.pipeline.starting import AVAILABLE_NOW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 600


def one_row(write: Callable[[DataFrame, int], None], folder: Path) -> Pipeline:
    """A pipeline with a batch of a row."""
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("3 apples\n", "utf-8")
    pipeline = Pipeline("orders", checkpoint=str(folder / "checkpoint"))

    @pipeline.source
    def lines(spark: SparkSession) -> DataFrame:
        return spark.readStream.format("text").load(str(folder / "in"))

    def writer(stream: Any, _: Mapping[str, str]) -> Any:
        return stream.foreachBatch(write)

    pipeline.to("out", of=lines, write=writer)
    return pipeline


def test_a_query_that_is_stopped_within_a_batch_ends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread died of a StackOverflowError, in a regular expression over the trace of the interrupt."""
    has_begun = threading.Event()

    def write(rows: DataFrame, batch: int) -> None:
        has_begun.set()
        rows.sparkSession.sql("SELECT java_method('java.lang.Thread', 'sleep', 600000L)").collect()

    # The first batch does not end.
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    running = one_row(write, tmp_path).start(spark)
    assert has_begun.wait(PATIENCE_S)
    running.stop(0)
    query = running.queries["out"]
    assert (query.isActive, query.status["message"], query.exception()) == (False, STOPPED, None)
    running.check()


def test_an_error_of_java_within_a_batch_is_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark.sparkContext._jvm

    def write(rows: DataFrame, batch: int) -> None:
        jvm.java.util.Objects.requireNonNull(None)

    running = one_row(write, tmp_path).start(spark, trigger=AVAILABLE_NOW)
    reason = r"Py4JJavaError: java\.lang\.NullPointerException"
    with pytest.raises(PipelineError, match=f"^orders: out has failed: {reason}$"):
        running.await_end(PATIENCE_S)
    running.stop(0)


def test_a_query_whose_thread_dies_of_an_error_fails_with_it(spark: SparkSession, tmp_path: Path) -> None:
    """Here while Spark plans a batch."""
    pipeline = one_row(lambda rows, batch: None, tmp_path)

    @pipeline.transform
    def deep(lines: DataFrame) -> DataFrame:
        return lines.selectExpr("value", "repeat('ab', 100000) RLIKE '(a|b)*c' AS is_deep")

    pipeline.to_parquet("deep", of=deep, path=str(tmp_path / "deep"))
    running = pipeline.start(spark, trigger=AVAILABLE_NOW, only=["deep"])
    with pytest.raises(PipelineError, match=r"^orders: deep has failed: java\.lang\.StackOverflowError$"):
        running.await_end(PATIENCE_S)
    running.stop(0)


INTERRUPTED = f"""Traceback (most recent call last):
  File "writing.py", line 53, in write
{JAVA_ERROR} o1858.collectToPython.
: java.lang.InterruptedException
\tat a.B.c(B.java:1)

During handling of the above exception, another exception occurred:

{JAVA_ERROR} o1845.unpersist.
: java.lang.NullPointerException: none
"""


def test_what_spark_searches_for_interrupts_is_short() -> None:
    """Of a thousand characters no thread has died yet."""
    before, _, after = told(INTERRUPTED + "\tat a.B.c(B.java:1)\n" * 1000).partition(JAVA_ERROR)
    assert after == " it\n: java.lang.InterruptedException"
    assert "Py4JJavaError: java.lang.NullPointerException: none\n" in before
    assert JAVA_ERROR not in told(INTERRUPTED.replace("Interrupted", "Corrupted"))


def test_only_errors_of_java_are_told_in_other_words(caplog: pytest.LogCaptureFixture) -> None:
    class Writer:
        def foreachBatch(self, write: Any) -> Any:  # noqa: N802 - Spark's name
            return write

    def write(rows: str, batch: int) -> None:
        raise ValueError(rows)

    writer: Any = Writer()
    let_batches_tell(writer)
    for text, kind in {"no apples": ValueError, INTERRUPTED: BatchError}.items():
        with pytest.raises(kind):
            writer.foreachBatch(write)(text, 0)
        try:
            writer.foreachBatch(write)(text, 0)
        except Exception:
            logging.getLogger(PROXY_LOGGER).exception("%s", kind.__name__)
    # The reason of a batch is said by its query.
    assert [record.message for record in caplog.records] == ["ValueError"]
