"""Workers: threads for blocking calls."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers, WorkersBusyError
from barnabas.runtime.simulated.disk_faults import PowerLost

PATIENCE_S = 120


class Gate:
    """A call that signals when it starts, and ends when the test opens it."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.open = threading.Event()
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        self.started.set()
        assert self.open.wait(PATIENCE_S)


class Results(queue.Queue[tuple[object, BaseException | None]]):
    """The results of calls, in order of completion."""

    def __call__(self, result: object, error: BaseException | None) -> None:
        self.put((result, error))

    def next(self) -> tuple[object, BaseException | None]:
        return self.get(timeout=PATIENCE_S)


def test_results_and_errors_are_delivered() -> None:
    workers, results = ThreadWorkers(), Results()
    workers.submit(lambda: 6 * 7, results)
    assert results.next() == (42, None)
    workers.submit(lambda: 1 // 0, results)
    assert isinstance(results.next()[1], ZeroDivisionError)

    def lose_power() -> None:
        raise PowerLost

    # Not even this ends a worker.
    workers.submit(lose_power, results)
    assert isinstance(results.next()[1], PowerLost)
    workers.submit(threading.get_ident, results)
    assert results.next()[0] != threading.get_ident()
    workers.close()


def test_calls_run_at_the_same_time_up_to_the_number_of_threads() -> None:
    workers, results = ThreadWorkers(threads_max=2), Results()
    gates = [Gate(), Gate(), Gate()]
    for gate in gates:
        workers.submit(gate, results)
    assert gates[0].started.wait(PATIENCE_S)
    assert gates[1].started.wait(PATIENCE_S)
    assert workers.waiting == 1
    assert not gates[2].started.is_set()
    gates[0].open.set()
    assert gates[2].started.wait(PATIENCE_S)
    for gate in gates:
        gate.open.set()
    workers.close()
    assert [results.next() for _ in gates] == [(None, None)] * 3


def test_one_thread_serves_successive_calls() -> None:
    workers, results = ThreadWorkers(threads_max=8), Results()
    idents = set()
    for _ in range(20):
        workers.submit(threading.get_ident, results)
        idents.add(results.next()[0])
        # The result is delivered before its thread waits for the next call; wait until it does.
        while not workers._ended:
            pass
    assert len(idents) == 1
    workers.close()


def test_a_full_queue_rejects_a_call_and_starts_nothing() -> None:
    workers, results = ThreadWorkers(threads_max=1, waiting_max=2), Results()
    gate = Gate()
    workers.submit(gate, results)
    assert gate.started.wait(PATIENCE_S)
    for _ in range(2):
        workers.submit(lambda: "kept", results)
    with pytest.raises(WorkersBusyError, match="2 calls wait"):
        workers.submit(lambda: "rejected", results)
    gate.open.set()
    assert [results.next()[0] for _ in range(3)] == [None, "kept", "kept"]
    workers.submit(lambda: "accepted again", results)
    assert results.next() == ("accepted again", None)
    workers.close()


def test_close_runs_waiting_calls_then_rejects_new_ones() -> None:
    workers, results = ThreadWorkers(threads_max=1), Results()
    gate = Gate()
    workers.submit(gate, results)
    workers.submit(lambda: "ran", results)
    gate.open.set()
    workers.close()
    workers.close()
    assert [results.next()[0] for _ in range(2)] == [None, "ran"]
    with pytest.raises(WorkersBusyError, match="closed"):
        workers.submit(lambda: None, results)
    assert not any(thread.is_alive() for thread in workers._threads)


def test_results_are_delivered_on_the_loop() -> None:
    pool = ThreadWorkers(threads_max=1, waiting_max=1)
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    home = LoopWorkers(pool, posted.put)
    results: list[tuple[object, object, int]] = []

    def done(result: object, error: BaseException | None) -> None:
        results.append((result, type(error), threading.get_ident()))

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
    assert results == [
        (42, type(None), here),
        (None, ZeroDivisionError, here),
        (None, WorkersBusyError, here),
    ]
    gate.open.set()
    pool.close()
