"""Workers: threads for calls that block."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import wait

import pytest

from barnabas.runtime.disk_faults import PowerLost
from barnabas.runtime.workers import LoopWorkers, ThreadWorkers, WorkersBusyError

PATIENCE_S = 30


class Gate:
    """A call that says when it starts, and ends when told."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.open = threading.Event()
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        self.started.set()
        assert self.open.wait(PATIENCE_S)


def test_results_and_errors_come_back() -> None:
    workers = ThreadWorkers()
    assert workers.submit(lambda: 6 * 7).result(PATIENCE_S) == 42
    with pytest.raises(ZeroDivisionError):
        workers.submit(lambda: 1 // 0).result(PATIENCE_S)

    def lose_power() -> None:
        raise PowerLost

    # Not even this ends a worker.
    with pytest.raises(PowerLost):
        workers.submit(lose_power).result(PATIENCE_S)
    assert workers.submit(threading.get_ident).result(PATIENCE_S) != threading.get_ident()
    workers.close()


def test_calls_run_at_the_same_time_up_to_the_number_of_threads() -> None:
    workers = ThreadWorkers(threads_max=2)
    gates = [Gate(), Gate(), Gate()]
    results = [workers.submit(gate) for gate in gates]
    assert gates[0].started.wait(PATIENCE_S)
    assert gates[1].started.wait(PATIENCE_S)
    assert workers.waiting == 1
    assert not gates[2].started.is_set()
    gates[0].open.set()
    assert gates[2].started.wait(PATIENCE_S)
    for gate in gates:
        gate.open.set()
    wait(results, PATIENCE_S)
    workers.close()


def test_one_thread_serves_calls_that_come_one_after_another() -> None:
    workers = ThreadWorkers(threads_max=8)
    idents = set()
    for _ in range(20):
        idents.add(workers.submit(threading.get_ident).result(PATIENCE_S))
        # The future is set before its thread asks for more; wait until it does.
        while workers._idle < len(workers._threads):
            pass
    assert len(idents) == 1
    workers.close()


def test_a_full_queue_refuses_and_starts_nothing() -> None:
    workers = ThreadWorkers(threads_max=1, waiting_max=2)
    gate = Gate()
    workers.submit(gate)
    assert gate.started.wait(PATIENCE_S)
    kept = [workers.submit(lambda: "kept") for _ in range(2)]
    with pytest.raises(WorkersBusyError, match="2 calls wait"):
        workers.submit(lambda: "refused")
    gate.open.set()
    assert [future.result(PATIENCE_S) for future in kept] == ["kept", "kept"]
    assert workers.submit(lambda: "room again").result(PATIENCE_S) == "room again"
    workers.close()


def test_close_runs_what_waits_then_refuses() -> None:
    workers = ThreadWorkers(threads_max=1)
    gate = Gate()
    first = workers.submit(gate)
    second = workers.submit(lambda: "ran")
    cancelled = workers.submit(lambda: "never")
    assert cancelled.cancel()
    gate.open.set()
    workers.close()
    workers.close()
    assert first.done()
    assert second.result(0) == "ran"
    assert cancelled.cancelled()
    with pytest.raises(WorkersBusyError, match="closed"):
        workers.submit(lambda: None)
    assert not any(thread.is_alive() for thread in workers._threads)


def test_results_are_told_on_the_loop() -> None:
    pool = ThreadWorkers(threads_max=1, waiting_max=1)
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    home = LoopWorkers(pool, posted.put)
    told: list[tuple[object, object, int]] = []

    def done(result: object, error: BaseException | None) -> None:
        told.append((result, type(error), threading.get_ident()))

    home.submit(lambda: 42, done)
    posted.get(timeout=PATIENCE_S)()
    home.submit(lambda: 1 // 0, done)
    posted.get(timeout=PATIENCE_S)()
    gate = Gate()
    home.submit(gate, done)
    assert gate.started.wait(PATIENCE_S)
    home.submit(lambda: "waits", done)
    home.submit(lambda: "refused", done)
    posted.get(timeout=PATIENCE_S)()
    here = threading.get_ident()
    assert told == [
        (42, type(None), here),
        (None, ZeroDivisionError, here),
        (None, WorkersBusyError, here),
    ]
    gate.open.set()
    pool.close()
