"""A pipeline that runs: one streaming query a sink.

What lives here: from a definition to Spark's queries, and what can be told of them.  What may not: what a
pipeline is (definition), and how it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.spark.pipeline.definition import (
    SETTINGS,
    SPARK,
    Pipeline,
    PipelineError,
    Settings,
    Sink,
    filled,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

AVAILABLE_NOW = "available-now"


@dataclass(frozen=True, slots=True)
class Progress:
    """What one query did last."""

    name: str
    batch: int
    input_rows: int
    rows_per_second: float
    batch_ms: int
    state_rows: int
    state_bytes: int
    late_rows: int
    watermark: str
    # How many records its sources have that it has not read yet; None where they do not tell.
    lag: int | None


class Running:
    """The queries of a pipeline."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.settings = settings
        self.queries: dict[str, StreamingQuery] = {}
        self._late_rows: dict[str, tuple[int, int]] = {}

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries.values())

    def check(self) -> None:
        """PipelineError with the reason if a query has failed."""
        for name, query in self.queries.items():
            failure = query.exception()
            if failure is not None:
                raise PipelineError(f"{self.pipeline.name}: {name} has failed: {reason(failure)}")

    def progress(self) -> list[Progress]:
        return [
            _progress(name, query.lastProgress) for name, query in self.queries.items() if query.lastProgress
        ]

    def await_end(self, timeout_s: float | None = None) -> bool:
        """Wait until every query has ended (as with `available-now`); raises what a query failed with."""
        for query in self.queries.values():
            if timeout_s is None:
                query.awaitTermination()
            elif not query.awaitTermination(max(1, int(timeout_s))):
                return False
        return True

    def stop(self) -> None:
        """End all queries; what they have not finished is done again from the checkpoint."""
        for query in self.queries.values():
            query.stop()


def start(
    pipeline: Pipeline, spark: SparkSession, settings: Settings, trigger: str | None, only: Sequence[str]
) -> Running:
    frames = _frames(pipeline, spark, settings)
    running = Running(pipeline, spark, settings)
    try:
        for sink in pipeline.sinks.values():
            if not only or sink.name in only:
                running.queries[sink.name] = _query(pipeline, sink, frames[sink.of], settings, trigger)
    except BaseException:
        running.stop()
        raise
    return running


def _frames(pipeline: Pipeline, spark: SparkSession, settings: Settings) -> dict[str, DataFrame]:
    frames: dict[str, Any] = {}
    for part in pipeline.order():
        given = {**frames, SPARK: spark, SETTINGS: settings}
        frames[part.name] = part.function(*[given[name] for name in part.takes])
    return frames


def _query(
    pipeline: Pipeline, sink: Sink, rows: DataFrame, settings: Settings, trigger: str | None
) -> StreamingQuery:
    where = f"{pipeline.name}: {sink.name}"
    if not rows.isStreaming:
        raise PipelineError(f"{where}: {sink.of} is a table; a sink needs rows of a source")
    writer = rows.writeStream.queryName(f"{pipeline.name}-{sink.name}").outputMode(sink.mode)
    writer = writer.option("checkpointLocation", os.path.join(settings["checkpoint"], sink.name))
    if sink.write is not None:
        writer = sink.write(writer, settings)
    else:
        options = {name: filled(value, settings, where) for name, value in sink.options.items()}
        writer = writer.format(sink.form).options(**options)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    return writer.start()


def reason(failure: Exception) -> str:
    """The line of a query's failure that says why."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line and not line.startswith(("at ", "File "))]
    return (told or lines or [repr(failure)])[-1 if told else 0]


def _progress(name: str, told: Any) -> Progress:
    operators = told["stateOperators"] or []
    lags = [_lag(source) for source in told["sources"] or []]
    return Progress(
        name=name,
        batch=told["batchId"],
        input_rows=told["numInputRows"],
        rows_per_second=float(told["processedRowsPerSecond"] or 0.0),
        batch_ms=(told["durationMs"] or {}).get("triggerExecution", 0),
        state_rows=sum(one["numRowsTotal"] for one in operators),
        state_bytes=sum(one["memoryUsedBytes"] for one in operators),
        late_rows=sum(one["numRowsDroppedByWatermark"] for one in operators),
        watermark=(told["eventTime"] or {}).get("watermark", ""),
        lag=sum(lag for lag in lags if lag is not None) if any(lag is not None for lag in lags) else None,
    )


def _lag(source: Any) -> int | None:
    """By the offsets that our source reports: {"topic": {"0": 12}}."""
    import json

    try:
        end, latest = (_offsets(json, source[name]) for name in ("endOffset", "latestOffset"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return sum(max(0, offset - end.get(place, 0)) for place, offset in latest.items())


def _offsets(json: Any, told: Any) -> dict[tuple[str, str], int]:
    tree = json.loads(told) if isinstance(told, str) else told
    return {(topic, part): int(offset) for topic, parts in tree.items() for part, offset in parts.items()}
