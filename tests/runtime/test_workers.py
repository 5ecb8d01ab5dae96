"""Workers, real and simulated, and the sharing of syncs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

import pytest

from barnabas.runtime import workers as workers_module
from barnabas.runtime.chance import SeededRandom
from barnabas.runtime.disk_faults import PowerLost
from barnabas.runtime.workers import LoopWorkers, SimulatedWorkers, SyncGroup, ThreadWorkers, WorkersBusyError

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


class Scheduler:
    """The least that a simulated world does."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], None]] = []

    def run(self) -> None:
        while self.steps:
            self.steps.pop(0)()


def simulated_order(seed: int) -> list[int]:
    scheduler = Scheduler()
    workers = SimulatedWorkers(SeededRandom(seed), scheduler.steps.append)
    order: list[int] = []
    for number in range(20):
        workers.submit(lambda number=number: order.append(number))
    assert order == []
    assert workers.waiting == 20
    scheduler.run()
    return order


def test_simulated_workers_run_in_an_order_that_the_seed_decides() -> None:
    assert simulated_order(1) == simulated_order(1)
    assert sorted(simulated_order(1)) == list(range(20))
    assert len({tuple(simulated_order(seed)) for seed in range(10)}) > 5
    # No call is overtaken by more than the other threads could have run.
    assert all(order[0] < workers_module.WORKER_THREADS for order in map(simulated_order, range(50)))


def test_simulated_workers_refuse_close_and_drop() -> None:
    scheduler = Scheduler()
    workers = SimulatedWorkers(SeededRandom(1), scheduler.steps.append, waiting_max=2)
    kept = [workers.submit(lambda: 1), workers.submit(lambda: 1 // 0)]
    with pytest.raises(WorkersBusyError):
        workers.submit(lambda: 3)
    workers.close()
    assert kept[0].result(0) == 1
    assert isinstance(kept[1].exception(0), ZeroDivisionError)
    with pytest.raises(WorkersBusyError):
        workers.submit(lambda: 3)
    scheduler.run()

    workers = SimulatedWorkers(SeededRandom(1), scheduler.steps.append)
    lost = workers.submit(lambda: 1)
    workers.drop()
    scheduler.run()
    assert lost.cancelled()


def test_callers_share_the_next_sync_and_never_the_running_one() -> None:
    workers = ThreadWorkers(threads_max=2)
    group = SyncGroup(workers)
    first, second, other = Gate(), Gate(), Gate()
    waiting = group.sync("log", first)
    assert first.started.wait(PATIENCE_S)
    shared = [group.sync("log", second) for _ in range(10)]
    elsewhere = group.sync("other log", other)
    assert other.started.wait(PATIENCE_S)
    other.open.set()
    elsewhere.result(PATIENCE_S)
    first.open.set()
    waiting.result(PATIENCE_S)
    assert second.started.wait(PATIENCE_S)
    assert not any(future.done() for future in shared)
    second.open.set()
    wait(shared, PATIENCE_S)
    assert (first.calls, second.calls) == (1, 1)
    workers.close()


def test_sharers_share_a_failure_and_the_next_round_is_fresh() -> None:
    scheduler = Scheduler()
    group = SyncGroup(SimulatedWorkers(SeededRandom(1), scheduler.steps.append))
    attempts: list[str] = []

    def fail() -> None:
        attempts.append("fail")
        raise OSError(5, "no")

    failed = [group.sync("log", fail) for _ in range(3)]
    assert failed[0].cancel()  # One caller's loss of interest is not the others'.
    scheduler.run()
    assert all(isinstance(future.exception(0), OSError) for future in failed[1:])
    fine = group.sync("log", lambda: attempts.append("fine"))
    scheduler.run()
    assert fine.result(0) is None
    assert attempts == ["fail", "fine"]


def test_a_sync_asked_for_inside_a_sync_runs_after_it() -> None:
    scheduler = Scheduler()
    group = SyncGroup(SimulatedWorkers(SeededRandom(1), scheduler.steps.append))
    order: list[str] = []
    inner: list[Future[None]] = []

    def outer() -> None:
        inner.append(group.sync("log", lambda: order.append("inner")))
        order.append("outer")

    group.sync("log", outer)
    scheduler.run()
    assert order == ["outer", "inner"]
    assert inner[0].done()


def test_busy_workers_refuse_a_first_sync_but_never_strand_a_second() -> None:
    workers = ThreadWorkers(threads_max=1, waiting_max=1)
    group = SyncGroup(workers)
    gate = Gate()
    first = group.sync("log", gate)
    assert gate.started.wait(PATIENCE_S)
    second = group.sync("log", lambda: None)
    between = workers.submit(lambda: None)
    refused = group.sync("other log", lambda: None)
    assert isinstance(refused.exception(0), WorkersBusyError)
    gate.open.set()
    # The queue is full when the first round ends, so its thread runs the second itself.
    wait([first, second, between], PATIENCE_S)
    assert second.exception(0) is None
    assert group.sync("other log", lambda: None).exception(PATIENCE_S) is None
    workers.close()


def test_too_many_sharers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "SHARERS_MAX", 2)
    scheduler = Scheduler()
    group = SyncGroup(SimulatedWorkers(SeededRandom(1), scheduler.steps.append))
    kept = [group.sync("log", lambda: None) for _ in range(2)]
    with pytest.raises(WorkersBusyError, match="slow down"):
        group.sync("log", lambda: None)
    scheduler.run()
    assert all(future.done() for future in kept)
