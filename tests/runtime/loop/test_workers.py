"""Workers: threads for calls that block."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers, WorkersBusyError
from barnabas.runtime.simulated.disk_faults import PowerLost

PATIENCE_S = 120


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


class Told(queue.Queue[tuple[object, BaseException | None]]):
    """How calls ended, in the order in which they did."""

    def __call__(self, result: object, error: BaseException | None) -> None:
        self.put((result, error))

    def next(self) -> tuple[object, BaseException | None]:
        return self.get(timeout=PATIENCE_S)


def test_results_and_errors_come_back() -> None:
    workers, told = ThreadWorkers(), Told()
    workers.submit(lambda: 6 * 7, told)
    assert told.next() == (42, None)
    workers.submit(lambda: 1 // 0, told)
    assert isinstance(told.next()[1], ZeroDivisionError)

    def lose_power() -> None:
        raise PowerLost

    # Not even this ends a worker.
    workers.submit(lose_power, told)
    assert isinstance(told.next()[1], PowerLost)
    workers.submit(threading.get_ident, told)
    assert told.next()[0] != threading.get_ident()
    workers.close()


def test_calls_run_at_the_same_time_up_to_the_number_of_threads() -> None:
    workers, told = ThreadWorkers(threads_max=2), Told()
    gates = [Gate(), Gate(), Gate()]
    for gate in gates:
        workers.submit(gate, told)
    assert gates[0].started.wait(PATIENCE_S)
    assert gates[1].started.wait(PATIENCE_S)
    assert workers.waiting == 1
    assert not gates[2].started.is_set()
    gates[0].open.set()
    assert gates[2].started.wait(PATIENCE_S)
    for gate in gates:
        gate.open.set()
    workers.close()
    assert [told.next() for _ in gates] == [(None, None)] * 3


def test_one_thread_serves_calls_that_come_one_after_another() -> None:
    workers, told = ThreadWorkers(threads_max=8), Told()
    idents = set()
    for _ in range(20):
        workers.submit(threading.get_ident, told)
        idents.add(told.next()[0])
        # It is told before its thread asks for more; wait until it does.
        while not workers._ended:
            pass
    assert len(idents) == 1
    workers.close()


def test_a_full_queue_refuses_and_starts_nothing() -> None:
    workers, told = ThreadWorkers(threads_max=1, waiting_max=2), Told()
    gate = Gate()
    workers.submit(gate, told)
    assert gate.started.wait(PATIENCE_S)
    for _ in range(2):
        workers.submit(lambda: "kept", told)
    with pytest.raises(WorkersBusyError, match="2 calls wait"):
        workers.submit(lambda: "refused", told)
    gate.open.set()
    assert [told.next()[0] for _ in range(3)] == [None, "kept", "kept"]
    workers.submit(lambda: "room again", told)
    assert told.next() == ("room again", None)
    workers.close()


def test_close_runs_what_waits_then_refuses() -> None:
    workers, told = ThreadWorkers(threads_max=1), Told()
    gate = Gate()
    workers.submit(gate, told)
    workers.submit(lambda: "ran", told)
    gate.open.set()
    workers.close()
    workers.close()
    assert [told.next()[0] for _ in range(2)] == [None, "ran"]
    with pytest.raises(WorkersBusyError, match="closed"):
        workers.submit(lambda: None, told)
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
