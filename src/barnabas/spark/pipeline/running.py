"""A running pipeline: one streaming query per sink.

Contains the progress and the end of queries; starting them belongs in `starting`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from barnabas.base.lag import lag
from barnabas.runtime.clock import SystemClock
from barnabas.spark.pipeline.checkpoints import Lock
from barnabas.spark.pipeline.definition import Pipeline, PipelineError, Settings
from barnabas.spark.pipeline.faults import reason
from barnabas.spark.pipeline.patience import TOO_SLOW, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# How long to wait for the current batch when stopping; after that it is repeated at the next start.
STOP_PATIENCE_S = 60.0
POLL_S = 0.1
# How often a query is restarted that failed only because the machine was too slow.
MAX_RESTARTS = 20


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest progress of a query."""

    name: str
    batch: int
    input_rows: int
    rows_per_second: float
    batch_ms: int
    state_rows: int
    state_bytes: int
    # Rows that were dropped as late since the pipeline was started.
    late_rows: int
    watermark: str
    # Unread records of its sources; None if they do not report them.
    lag: int | None
    # Rows read since the pipeline was started.
    total_rows: int = 0


class _Totals:
    """Totals over the batches of a query."""

    def __init__(self) -> None:
        self.batch = -1
        self.rows = 0
        self.late_rows = 0

    def add(self, progress: Any) -> None:
        # Spark also reports triggers without data, under the number of the next batch.
        if progress["batchId"] > self.batch and "addBatch" in (progress["durationMs"] or {}):
            self.batch = progress["batchId"]
            self.rows += progress["numInputRows"]
            self.late_rows += sum(
                entry["numRowsDroppedByWatermark"] for entry in progress["stateOperators"] or []
            )


class Running:
    """The queries of a pipeline."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, settings: Settings) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.settings = settings
        self.queries: dict[str, StreamingQuery] = {}
        self.locks: list[Lock] = []
        self._starts: dict[str, Callable[[], StreamingQuery]] = {}
        self._restarts: dict[str, int] = {}
        self._totals: dict[str, _Totals] = {}
        # A SimpleQueue, because a signal handler may put something into it at any moment.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries.values())

    def start(self, name: str, how: Callable[[], StreamingQuery]) -> None:
        self._starts[name] = how
        self.queries[name] = started(how)

    def check(self) -> None:
        """Raise PipelineError with the reason if a query has failed; one that failed because the machine was
        too slow is restarted."""
        for name, query in list(self.queries.items()):
            failure = query.exception()
            if failure is None:
                continue
            self._restarts[name] = self._restarts.get(name, 0) + 1
            if TOO_SLOW not in str(failure) or self._restarts[name] > MAX_RESTARTS:
                raise PipelineError(
                    f"{self.pipeline.name}: {name} has failed: {reason(failure)}"
                ) from failure
            self.queries[name] = self._starts[name]()

    def progress(self) -> list[Progress]:
        latest = []
        for name, query in self.queries.items():
            progress = query.lastProgress
            if progress:
                latest.append(_progress(name, progress, self._add_up(name, query, progress)))
        return latest

    def _add_up(self, name: str, query: StreamingQuery, last: Any) -> _Totals:
        totals = self._totals.setdefault(name, _Totals())
        if last["batchId"] > totals.batch:
            # Several batches may have ended since the last call; Spark keeps the last hundred.
            for progress in query.recentProgress:
                totals.add(progress)
        return totals

    # ----------------------------------------------------------------------------------------------- stopping

    def wait(self, timeout_s: float) -> None:
        """Wait until `wake` is called or the time is over."""
        try:
            self._wakes.get(timeout=timeout_s)
        except Empty:
            return

    def wake(self) -> None:
        self._wakes.put(None)

    def await_end(self, timeout_s: float | None = None) -> bool:
        """Wait until every query has ended (as with `available-now`), at most `timeout_s`; raises
        PipelineError if one has failed."""
        start_ns = SystemClock().monotonic_ns()
        self.check()
        while self.is_active:
            if timeout_s is not None and SystemClock().monotonic_ns() - start_ns >= timeout_s * 1e9:
                return False
            self.wait(POLL_S)
            self.check()
        self._free()
        return True

    def stop(self, patience_s: float = STOP_PATIENCE_S) -> None:
        """Stop all queries, each when its current batch has ended; one that takes longer than `patience_s` is
        repeated from the checkpoint."""
        deadline_ns = SystemClock().monotonic_ns() + int(patience_s * 1e9)
        batches = {name: _batch(query) for name, query in self.queries.items()}
        left = dict(self.queries)
        while left:
            is_over = SystemClock().monotonic_ns() >= deadline_ns
            for name, query in list(left.items()):
                if is_over or _is_between_batches(query) or _batch(query) != batches[name]:
                    query.stop()
                    del left[name]
            if left:
                self.wait(POLL_S)
        self._free()

    def _free(self) -> None:
        for lock in self.locks:
            lock.free()
        self.locks.clear()


def _batch(query: StreamingQuery) -> int:
    """Return the last completed batch."""
    progress = query.lastProgress
    return progress["batchId"] if progress else -1


def _is_between_batches(query: StreamingQuery) -> bool:
    return not query.isActive or not query.status["isTriggerActive"]


def _progress(name: str, last: Any, totals: _Totals) -> Progress:
    operators = last["stateOperators"] or []
    lags = [_lag(source) for source in last["sources"] or []]
    return Progress(
        name=name,
        batch=last["batchId"],
        input_rows=last["numInputRows"],
        rows_per_second=float(last["processedRowsPerSecond"] or 0.0),
        batch_ms=(last["durationMs"] or {}).get("triggerExecution", 0),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        late_rows=totals.late_rows,
        watermark=_watermark(last),
        lag=sum(known for known in lags if known is not None)
        if any(known is not None for known in lags)
        else None,
        total_rows=totals.rows,
    )


def _watermark(progress: Any) -> str:
    """Return the watermark; empty before the first rows, for which Spark reports 1970."""
    watermark = str((progress["eventTime"] or {}).get("watermark", ""))
    return "" if watermark.startswith("1970-01-01T00:00:00") else watermark


def _lag(source: Any) -> int | None:
    """Compute the lag from the offsets of our source: {"topic": {"0": 12}}."""
    try:
        end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    # Log start offsets are not reported: the source itself has skipped deleted records.
    return sum(lag(end.get(place, 0), 0, offset) for place, offset in latest.items())


def _offsets(reported: Any) -> dict[tuple[str, str], int]:
    tree = json.loads(reported) if isinstance(reported, str) else reported
    return {(topic, part): int(offset) for topic, parts in tree.items() for part, offset in parts.items()}
