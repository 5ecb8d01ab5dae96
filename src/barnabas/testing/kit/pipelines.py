"""Pipelines under test: rows in, one micro-batch or many, rows out, without a broker process of one's own."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.errors import KitError, WaitTimeoutError
from barnabas.testing.kit.topics.topics import Topic, Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from barnabas.spark.pipeline import Pipeline

RUN_TIMEOUT_S = 300.0


class PipelineTest:
    """A pipeline whose sinks hand their rows to the test in place of writing them.

    with PipelineTest(pipeline, spark) as test:
        test.send("orders", "3 apples", "1 pears")
        assert test.run()["bills"] == [Row(what="apples", cents=90)]

    Everything else is the pipeline's own: it reads topics of a broker in this process (its setting
    `bootstrap`) and keeps its state in a checkpoint from one `run` to the next.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        topics: Topics | None = None,
    ) -> None:
        """`topics`: a cluster of the test, with its faults; without it a broker is started."""
        self._pipeline = pipeline
        self._given_spark = spark
        self._settings = dict(settings or {})
        self._given_topics = topics
        self._stack = contextlib.ExitStack()
        self._topics: dict[str, Topic] = {}
        # What each sink was given in the present run.
        self._rows: dict[str, list[Row]] = {}

    def __enter__(self) -> Self:
        from barnabas.spark import session

        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="barnabas-pipeline-"))
            self._cluster = self._given_topics or stack.enter_context(Cluster(1))
            self._spark = self._given_spark or session("test")
            self._settings = {
                "bootstrap": self._cluster.bootstrap_servers,
                "checkpoint": folder,
                **self._settings,
            }
            self._twin = self._observed()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def topic(self, name: str, **options: Any) -> Topic:
        """Creates a topic that the pipeline reads; `options` are those of `Cluster.topic`."""
        self._topics[name] = self._cluster.topic(name, **options)
        return self._topics[name]

    def send(self, topic: str, *values: Any, **options: Any) -> None:
        """Writes rows into a topic, which is created if it is new; `options` are those of `Topic.send`."""
        known = self._topics.get(topic) or self.topic(topic)
        for value in values:
            known.send(value, **options)

    def run(self, *sinks: str, timeout: float = RUN_TIMEOUT_S) -> dict[str, list[Row]]:
        """What is there is processed, in one micro-batch unless a source bounds them; the rows of each sink.

        Further runs go on where this one has ended.  An exception of the pipeline comes to the test.
        """
        self._rows = {name: [] for name in sinks or self._pipeline.sinks}
        running = self._twin.start(self._spark, self._settings, trigger="available-now", only=sinks)
        try:
            if not running.await_end(timeout):
                raise WaitTimeoutError(
                    f"the pipeline {self._pipeline.name} has not processed its rows after {timeout:g} s"
                )
        finally:
            running.stop(0)
        return self._rows

    def _observed(self) -> Pipeline:
        """The pipeline with other ends."""
        self._pipeline.check()
        twin = copy.copy(self._pipeline)
        twin.sinks = {
            name: replace(sink, write=self._writer(name), options={}, partition_by=())
            for name, sink in self._pipeline.sinks.items()
        }
        return twin

    def _writer(self, sink: str) -> Callable[[Any, Mapping[str, str]], Any]:
        return lambda writer, _: writer.foreachBatch(partial(self._take, sink))

    def _take(self, sink: str, rows: DataFrame, batch: int) -> None:
        if sink not in self._rows:
            raise KitError(f"rows of {sink} come although it is not run")
        self._rows[sink] += rows.collect()
