"""Queries that end, fail, are slow or are stopped; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from barnabas.spark.pipeline import Pipeline, PipelineError
from barnabas.spark.pipeline import patience as patience_module
from barnabas.spark.pipeline import running as running_module
from barnabas.spark.pipeline.patience import ATTEMPTS, TOO_SLOW, started
from barnabas.spark.pipeline.running import MAX_RESTARTS, STOPPED, Running


class Query:
    """A streaming query whose state the test sets."""

    def __init__(self, failure: str | None = None) -> None:
        self.isActive = True
        self.failure = failure
        self.recentProgress: list[dict[str, Any]] = []
        self.status = {"message": "Waiting for data to arrive", "isTriggerActive": False}
        self.stops = 0
        self.has_ended = True

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> Exception | None:
        return None if self.failure is None else Exception(self.failure)

    def stop(self) -> None:
        self.end()
        self.stops += 1

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        return not self.isActive and self.has_ended

    def end(self) -> None:
        self.isActive = False
        self.status["message"] = STOPPED


class Locked:
    """A lock that counts how often it is freed."""

    freed = 0

    def free(self) -> None:
        self.freed += 1


def progress(batch: int, rows: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "processedRowsPerSecond": 2.5,
        "durationMs": {"addBatch": 3, "triggerExecution": 7},
        "stateOperators": [
            {"numRowsTotal": 4, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 6, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 1},
        ],
        "sources": [],
        "eventTime": {},
        "observedMetrics": {},
        **more,
    }


def running(*queries: Query) -> Running:
    made = Running(Pipeline("orders"), cast("Any", None), {})
    for number, query in enumerate(queries):
        made.queries[f"sink{number}"] = cast("Any", query)
    return made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "POLL_S", 0.001)
    monkeypatch.setattr(patience_module, "LOOK_EVERY_S", 0.0)


def test_a_failed_query_ends_the_pipeline_with_its_reason() -> None:
    made = running(Query(), Query("nonsense\n\tat Java"))
    with pytest.raises(PipelineError, match=r"^orders: sink1 has failed: nonsense$"):
        made.check()
    running(Query(), Query()).check()


def test_a_query_whose_thread_has_died_silently_has_failed() -> None:
    """Spark sets no exception if a Java Error comes while it handles another."""
    query = Query()
    made = running(Query(), query)
    query.isActive = False
    query.status["message"] = "Processing new data"
    query.has_ended = False
    # Somebody is stopping it.
    made.check()
    query.has_ended = True
    died = "its thread has died without a reason while its state was 'Processing new data'"
    with pytest.raises(PipelineError, match=f"^orders: sink1 has failed: {died}; .*log"):
        made.check()
    # It is restarted like any other.
    made.pipeline.to_topic("sink1", of="x", topic="t", restarts=1)
    made._restarts.clear()
    made.check()
    assert made.is_active
    query.end()
    made._due_ns.clear()
    made.check()


def test_a_query_that_was_too_slow_is_restarted_but_not_forever() -> None:
    starts: list[Query] = []

    def start() -> Any:
        starts.append(Query(f"{TOO_SLOW} in time"))
        return starts[-1]

    made = running()
    made._starts["slow"] = start
    made.queries["slow"] = start()
    for restarts in range(1, MAX_RESTARTS + 1):
        made.check()
        assert len(starts) == 1 + restarts
        assert cast("Any", made.queries["slow"]) is starts[-1]
    with pytest.raises(PipelineError, match="orders: slow has failed"):
        made.check()
    assert len(starts) == 1 + MAX_RESTARTS


def test_a_failed_query_is_restarted_as_often_as_its_sink_says(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(
        running_module, "SystemClock", lambda: type("Clock", (), {"monotonic_ns": lambda _: clock[0]})()
    )
    made = running(Query())
    made.pipeline.to_topic("flaky", of="x", topic="t", restarts=2)
    starts: list[Query] = []

    def start() -> Any:
        starts.append(Query("nonsense"))
        return starts[-1]

    made._starts["flaky"] = start
    made.queries["flaky"] = start()
    made.check()
    # Not at once: what it failed by may take a while to go.
    assert (len(starts), made.is_active) == (1, True)
    clock[0] += int(1.1e9)
    made.check()
    assert len(starts) == 2
    # A batch that was done since gives it all its restarts again.
    starts[-1].recentProgress.append(progress(5))
    for pause_s, count in ((1.1, 3), (2.1, 4)):
        made.check()
        clock[0] += int(pause_s * 1e9)
        made.check()
        assert len(starts) == count
        starts[-1].recentProgress.append(progress(5))
    with pytest.raises(PipelineError, match=r"flaky has failed \(after 2 restarts\): nonsense"):
        made.check()


def test_the_end_of_all_queries_is_awaited() -> None:
    queries = [Query(), Query()]
    made = running(*queries)
    lock = Locked()
    made.locks.append(cast("Any", lock))
    assert not made.await_end(timeout_s=0)
    assert lock.freed == 0
    for query in queries:
        assert made.is_active
        query.end()
    assert not made.is_active
    assert made.await_end()
    assert (lock.freed, made.locks) == (1, [])


def test_a_query_that_fails_while_it_is_awaited_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query()
    made = running(query)

    def fail(_: float) -> None:
        query.failure = "it broke"

    monkeypatch.setattr(made, "wait", fail)
    with pytest.raises(PipelineError, match="it broke"):
        made.await_end()


def test_waiting_ends_when_woken() -> None:
    made = running()
    made.wake()
    made.wait(600.0)
    made.wait(0.0)


def test_queries_are_stopped_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    idle, busy, ending = Query(), Query(), Query()
    for query in (busy, ending):
        query.status["isTriggerActive"] = True
    ending.recentProgress = [progress(3)]
    made = running(idle, busy, ending)
    lock = Locked()
    made.locks.append(cast("Any", lock))
    stopped: list[list[int]] = []

    def steps() -> Iterator[None]:
        ending.recentProgress.append(progress(4))
        yield
        busy.status["isTriggerActive"] = False
        yield

    step = steps()

    def wait(_: float) -> None:
        stopped.append([query.stops for query in (idle, busy, ending)])
        next(step)

    monkeypatch.setattr(made, "wait", wait)
    made.stop(patience_s=600.0)
    assert stopped == [[1, 0, 0], [1, 0, 1]]
    assert [query.stops for query in (idle, busy, ending)] == [1, 1, 1]
    assert lock.freed == 1


def test_a_long_batch_is_interrupted_when_the_patience_is_over() -> None:
    busy = Query()
    busy.status["isTriggerActive"] = True
    running(busy).stop(patience_s=0.0)
    assert busy.stops == 1


def test_progress_is_of_the_last_batch_and_totals_are_of_all() -> None:
    query = Query()
    made = running(query)
    assert made.progress() == []
    sources = [
        {"endOffset": {"t": {"0": 3, "1": 4}}, "latestOffset": '{"t": {"0": 10, "1": 4, "2": 2}}'},
        {"endOffset": None, "latestOffset": None},
    ]
    query.recentProgress = [
        progress(0),
        progress(1, rows=7, sources=sources, eventTime={"watermark": "2026-01-01T00:00:00Z"}),
    ]
    (found,) = made.progress()
    assert (found.name, found.batch, found.input_rows, found.total_rows) == ("sink0", 1, 7, 12)
    assert (found.rows_per_second, found.batch_ms) == (2.5, 7)
    assert (found.state_rows, found.state_bytes, found.late_rows) == (10, 150, 6)
    assert (found.watermark, found.lag) == ("2026-01-01T00:00:00Z", 9)
    assert made.progress() == [found], "the same batches are counted once"
    # Without rows, Spark reports the number of the next batch, and no batch was added.
    query.recentProgress.append(
        progress(2, rows=0, durationMs={}, eventTime={"watermark": "1970-01-01T00:00:00Z"})
    )
    (idle,) = made.progress()
    assert (idle.total_rows, idle.watermark, idle.lag, idle.batch_ms) == (12, "", None, 0)
    query.recentProgress.append(progress(2, rows=1, processedRowsPerSecond=None, stateOperators=None))
    (last,) = made.progress()
    assert (last.total_rows, last.late_rows, last.rows_per_second, last.state_rows) == (13, 6, 0.0, 0)


@pytest.mark.parametrize(
    ("failures", "attempts"),
    [
        ([None], 1),
        (["another fault"], 1),
        ([TOO_SLOW, None], 2),
        ([TOO_SLOW] * ATTEMPTS, ATTEMPTS),
    ],
)
def test_a_query_whose_workers_start_too_slowly_is_tried_again(
    failures: list[str | None], attempts: int
) -> None:
    tried: list[Query] = []

    def start() -> Any:
        tried.append(Query(failures[len(tried)]))
        return tried[-1]

    assert cast("Any", started(start)) is tried[-1]
    assert len(tried) == attempts


def test_the_first_batch_is_awaited() -> None:
    class Slow(Query):
        looks = 0

        @property
        def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
            self.looks += 1
            return progress(0) if self.looks > 3 else None

    slow = Slow()
    slow.status["message"] = "Processing new data"
    started(lambda: cast("Any", slow))
    assert slow.looks == 4
    ended = Slow()
    ended.isActive = False
    started(lambda: cast("Any", ended))
    waiting = Slow()
    started(lambda: cast("Any", waiting))
    assert (ended.looks, waiting.looks) == (0, 1)
