"""A pipeline that runs: one streaming query a sink.

What lives here: what can be told of the queries, and how they end.  What may not: how they come to be
(starting), what a pipeline is (definition), and how it is shown.
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

# How long a batch under way may take to end before it is given up; it is done again after a restart.
STOP_PATIENCE_S = 60.0
POLL_S = 0.1
# How often a query is started again that failed only because the machine was too slow.
MAX_RESTARTS = 20


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
    # Rows that came after the watermark and were dropped, since the pipeline was started.
    late_rows: int
    watermark: str
    # How many records its sources have that it has not read yet; None where they do not tell.
    lag: int | None
    # Rows read since the pipeline was started.
    total_rows: int = 0


class _Totals:
    """What adds up over the batches of one query."""

    def __init__(self) -> None:
        self.batch = -1
        self.rows = 0
        self.late_rows = 0

    def add(self, told: Any) -> None:
        # Spark also tells of triggers that found nothing to do, under the number of the batch to come.
        if told["batchId"] > self.batch and "addBatch" in (told["durationMs"] or {}):
            self.batch = told["batchId"]
            self.rows += told["numInputRows"]
            self.late_rows += sum(
                entry["numRowsDroppedByWatermark"] for entry in told["stateOperators"] or []
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
        # A plain queue, because a signal's handler may put something into it at any moment.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries.values())

    def start(self, name: str, how: Callable[[], StreamingQuery]) -> None:
        self._starts[name] = how
        self.queries[name] = started(how)

    def check(self) -> None:
        """PipelineError with the reason if a query has failed; one that only had no time to begin is started
        again."""
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
        found = []
        for name, query in self.queries.items():
            told = query.lastProgress
            if told:
                found.append(_progress(name, told, self._add_up(name, query, told)))
        return found

    def _add_up(self, name: str, query: StreamingQuery, told: Any) -> _Totals:
        totals = self._totals.setdefault(name, _Totals())
        if told["batchId"] > totals.batch:
            # Several batches may have ended since somebody asked; Spark keeps the last hundred.
            for progress in query.recentProgress:
                totals.add(progress)
        return totals

    # ------------------------------------------------------------------------------------------- how it ends

    def wait(self, timeout_s: float) -> None:
        """Until `wake` is called, or some time has passed."""
        try:
            self._wakes.get(timeout=timeout_s)
        except Empty:
            return

    def wake(self) -> None:
        self._wakes.put(None)

    def await_end(self, timeout_s: float | None = None) -> bool:
        """Wait until every query has ended (as with `available-now`), at most so long; PipelineError if one
        has failed."""
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
        """End all queries, each when the batch under way has ended; what takes longer than `patience_s` is
        done again from the checkpoint."""
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
    """The last batch that has ended."""
    told = query.lastProgress
    return told["batchId"] if told else -1


def _is_between_batches(query: StreamingQuery) -> bool:
    return not query.isActive or not query.status["isTriggerActive"]


def _progress(name: str, told: Any, totals: _Totals) -> Progress:
    operators = told["stateOperators"] or []
    lags = [_lag(source) for source in told["sources"] or []]
    return Progress(
        name=name,
        batch=told["batchId"],
        input_rows=told["numInputRows"],
        rows_per_second=float(told["processedRowsPerSecond"] or 0.0),
        batch_ms=(told["durationMs"] or {}).get("triggerExecution", 0),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        late_rows=totals.late_rows,
        watermark=_watermark(told),
        lag=sum(one for one in lags if one is not None) if any(one is not None for one in lags) else None,
        total_rows=totals.rows,
    )


def _watermark(told: Any) -> str:
    """Nothing before the first rows; Spark says 1970 then."""
    watermark = str((told["eventTime"] or {}).get("watermark", ""))
    return "" if watermark.startswith("1970-01-01T00:00:00") else watermark


def _lag(source: Any) -> int | None:
    """By the offsets that our source reports: {"topic": {"0": 12}}."""
    try:
        end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    # Where logs start is not reported: the source itself has moved past what was deleted.
    return sum(lag(end.get(place, 0), 0, offset) for place, offset in latest.items())


def _offsets(told: Any) -> dict[tuple[str, str], int]:
    tree = json.loads(told) if isinstance(told, str) else told
    return {(topic, part): int(offset) for topic, parts in tree.items() for part, offset in parts.items()}
