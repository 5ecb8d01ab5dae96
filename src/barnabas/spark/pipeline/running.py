"""A running pipeline: one streaming query per sink.

Contains the progress and the end of queries; starting them belongs in `starting`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from barnabas.base.lag import lag
from barnabas.runtime.clock import SystemClock
from barnabas.spark.pipeline.checkpoints import Lock
from barnabas.spark.pipeline.definition import Pipeline, PipelineError, Settings
from barnabas.spark.pipeline.expectations import Met, met
from barnabas.spark.pipeline.faults import reason
from barnabas.spark.pipeline.patience import TOO_SLOW, started
from barnabas.spark.topic_ids import IDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

# How long to wait for the current batch when stopping; after that it is repeated at the next start.
STOP_PATIENCE_S = 60.0
POLL_S = 0.1
# Before a failed query is restarted, doubled each time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
# How often a query is restarted that failed only because the machine was too slow.
MAX_RESTARTS = 20
# Spark's message of a query that has processed everything, or that was stopped.
STOPPED = "Stopped"
# Spark can only be asked to wait for the end of a query's thread: at most this long.
LATCH_S = 1


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
    # Since then, by name.
    expectations: Mapping[str, Met] = field(default_factory=dict)
    # Whether a batch is under way.
    is_working: bool = False


class _Totals:
    """Totals over the batches of a query."""

    def __init__(self) -> None:
        self.batch = -1
        self.rows = 0
        self.late_rows = 0
        self.expectations: dict[str, Met] = {}

    def add(self, progress: Any) -> None:
        # Spark also reports triggers without data, under the number of the next batch.
        if progress["batchId"] > self.batch and "addBatch" in (progress["durationMs"] or {}):
            self.batch = progress["batchId"]
            self.rows += progress["numInputRows"]
            for name, counts in met(progress).items():
                self.expectations[name] = self.expectations.get(name, Met()) + counts
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
        # The last batch of a query before it failed, and when a failed one is started again.
        self._failed_after: dict[str, int] = {}
        self._due_ns: dict[str, int] = {}
        self._totals: dict[str, _Totals] = {}
        # A SimpleQueue, because a signal handler may put something into it at any moment.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    @property
    def is_active(self) -> bool:
        return bool(self._due_ns) or any(query.isActive for query in self.queries.values())

    def start(self, name: str, how: Callable[[], StreamingQuery]) -> None:
        self._starts[name] = how
        self.queries[name] = started(how)

    def check(self) -> None:
        """Raise PipelineError with the reason if a query has failed for good; one that may be restarted is,
        after a pause.  A query that has done a batch since has all its restarts again."""
        now_ns = SystemClock().monotonic_ns()
        for name, query in list(self.queries.items()):
            failure = _failure(query)
            if failure is None:
                continue
            if name not in self._due_ns:
                self._plan_restart(name, query, failure, now_ns)
            if now_ns >= self._due_ns[name]:
                del self._due_ns[name]
                self.queries[name] = self._starts[name]()

    def _plan_restart(self, name: str, query: StreamingQuery, failure: Exception, now_ns: int) -> None:
        batch = _batch(query)
        if batch > self._failed_after.get(name, -1):
            self._restarts[name] = 0
        self._failed_after[name] = batch
        restarts = self._restarts[name] = self._restarts.get(name, 0) + 1
        is_slow = TOO_SLOW in str(failure)
        sink = self.pipeline.sinks.get(name)
        if restarts > (MAX_RESTARTS if is_slow else sink.restarts if sink is not None else 0):
            after = f" (after {restarts - 1} restarts)" if restarts > 1 else ""
            raise PipelineError(
                f"{self.pipeline.name}: {name} has failed{after}: {reason(failure)}"
            ) from failure
        pause_s = 0.0 if is_slow else min(FIRST_PAUSE_S * 2 ** (restarts - 1), LONGEST_PAUSE_S)
        self._due_ns[name] = now_ns + int(pause_s * 1e9)
        if not is_slow:
            logger.warning("%s has failed and starts again in %.0f s: %s", name, pause_s, reason(failure))

    def progress(self) -> list[Progress]:
        latest = []
        for name, query in self.queries.items():
            progress = query.lastProgress
            if progress:
                totals = self._add_up(name, query, progress)
                latest.append(_progress(name, progress, totals, query.status["isTriggerActive"]))
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


def _failure(query: StreamingQuery) -> Exception | None:
    """Return why a query has failed.  Spark sets no exception if the query's thread dies of a Java Error
    while it handles another; then only its last message tells that it has not ended well."""
    failure = query.exception()
    if failure is not None or query.isActive or not _is_ended(query):
        return failure
    message = str(query.status["message"])
    # It may have failed since it was asked.
    failure = query.exception()
    if failure is not None or message == STOPPED:
        return failure
    return RuntimeError(
        f"its thread has died without a reason while its state was {message!r}; the end of Spark's log says "
        "of what"
    )


def _is_ended(query: StreamingQuery) -> bool:
    """Whether its thread has ended: one that is stopped is not active any more a while before."""
    from pyspark.errors import StreamingQueryException

    try:
        return bool(query.awaitTermination(LATCH_S))
    except StreamingQueryException:
        return True


def _batch(query: StreamingQuery) -> int:
    """Return the last completed batch."""
    progress = query.lastProgress
    return progress["batchId"] if progress else -1


def _is_between_batches(query: StreamingQuery) -> bool:
    return not query.isActive or not query.status["isTriggerActive"]


def _progress(name: str, last: Any, totals: _Totals, is_working: bool) -> Progress:
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
        expectations=dict(totals.expectations),
        is_working=is_working,
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
    return {
        (topic, part): int(offset)
        for topic, parts in tree.items()
        if topic != IDS
        for part, offset in parts.items()
    }
