"""The executor: effects in order, none before its entry is durable, entries share syncs."""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest

from barnabas.base.effects import (
    Apply,
    CancelTimer,
    Effect,
    Event,
    Fired,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop import executor as executor_module
from barnabas.runtime.loop.executor import Executor, WorkerPool
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers


class Script:
    """A core that responds to each event with prescribed effects."""

    def __init__(self, answers: dict[Event, Sequence[Effect]]) -> None:
        self.answers = answers
        self.events: list[Event] = []

    def step(self, event: Event, now_ns: int) -> Sequence[Effect]:
        self.events.append(event)
        return self.answers.get(event, ())


class HandWorkers:
    """Work runs when the test calls `finish`."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], object], Callable[[Any, BaseException | None], None]]] = []

    def submit(self, work: Callable[[], object], done: Callable[[Any, BaseException | None], None]) -> None:
        self.waiting.append((work, done))

    def finish(self) -> None:
        work, done = self.waiting.pop(0)
        try:
            result = work()
        except OSError as error:
            done(None, error)
        else:
            done(result, None)


class ListStore:
    """Entries, and how many of them were synced."""

    def __init__(self) -> None:
        self.entries: list[object] = []
        self.synced = 0
        self.syncs = 0
        self.write_error: Exception | None = None
        self.sync_error: OSError | None = None

    def write(self, entry: object) -> None:
        if self.write_error is not None:
            raise self.write_error
        self.entries.append(entry)

    def sync(self) -> None:
        self.syncs += 1
        if self.sync_error is not None:
            raise self.sync_error
        self.synced = len(self.entries)


class Out:
    """The carried-out effects, and how much was durable at the time."""

    def __init__(self, store: ListStore) -> None:
        self._store = store
        self.left: list[tuple[str, object, int]] = []
        self.on_apply: Callable[[object], None] = lambda decided: None

    def send(self, to: int, message: object) -> None:
        self.left.append((f"send {to}", message, self._store.synced))

    def reply(self, to: Hashable, message: object) -> None:
        self.left.append((f"reply {to}", message, self._store.synced))

    def apply(self, decided: object) -> None:
        self.left.append(("apply", decided, self._store.synced))
        self.on_apply(decided)

    @property
    def messages(self) -> list[object]:
        return [message for _, message, _ in self.left]


class Bench:
    def __init__(self, answers: dict[Event, Sequence[Effect]], workers: WorkerPool | None = None) -> None:
        self.core = Script(answers)
        self.workers = HandWorkers()
        self.store = ListStore()
        self.out = Out(self.store)
        self.timers = Timers()
        self.failures: list[BaseException] = []
        self.executor = Executor(
            self.core,
            clock=SystemClock(),
            timers=self.timers,
            store=self.store,
            workers=workers or self.workers,
            exits=self.out,
            on_failure=self.failures.append,
        )


def received(number: int) -> Received:
    return Received(9, number)


def test_without_a_persist_effects_are_carried_out_at_once() -> None:
    bench = Bench({Requested("r", 1): [Send(2, "a"), Reply("r", "b"), Apply("c")]})
    bench.executor.step(Requested("r", 1))
    assert bench.out.left == [("send 2", "a", 0), ("reply r", "b", 0), ("apply", "c", 0)]


def test_effects_after_a_persist_wait_for_it_and_those_before_do_not() -> None:
    bench = Bench({received(1): [Send(2, "before"), Persist("entry"), Send(2, "after")]})
    bench.executor.step(received(1))
    assert bench.out.messages == ["before"]
    assert bench.executor.waiting == 1
    bench.workers.finish()
    assert bench.out.left == [("send 2", "before", 0), ("send 2", "after", 1)]


def test_the_core_continues_while_a_persist_is_in_flight_and_its_sends_queue_behind() -> None:
    bench = Bench({received(1): [Persist("one"), Send(2, "a")], received(2): [Send(2, "b")]})
    bench.executor.step(received(1))
    bench.executor.step(received(2))
    assert bench.core.events == [received(1), received(2)]
    assert bench.out.messages == []
    bench.workers.finish()
    assert bench.out.messages == ["a", "b"]


def test_a_running_sync_does_not_count_for_entries_written_meanwhile() -> None:
    bench = Bench({received(n): [Persist(n), Send(2, n)] for n in range(1, 5)})
    bench.executor.step(received(1))
    work, done = bench.workers.waiting.pop()
    work()  # The sync covers entry 1 only.
    for number in (2, 3, 4):
        bench.executor.step(received(number))
    assert bench.store.entries == [1, 2, 3, 4]
    done({}, None)
    assert bench.out.messages == [1]
    bench.workers.finish()
    assert bench.out.messages == [1, 2, 3, 4]
    assert bench.store.syncs == 2  # Three entries shared the second one.


def test_persisted_is_delivered_before_later_effects() -> None:
    bench = Bench(
        {received(1): [Persist("x", "token"), Send(2, "own")], Persisted("token"): [Send(3, "more")]}
    )
    bench.executor.step(received(1))
    bench.workers.finish()
    assert bench.core.events == [received(1), Persisted("token")]
    assert bench.out.messages == ["own", "more"]


def test_effects_of_a_nested_step_come_after_those_that_waited() -> None:
    bench = Bench({received(1): [Apply("first"), Send(2, "second")], received(2): [Send(2, "third")]})
    bench.out.on_apply = lambda decided: bench.executor.step(received(2))
    bench.executor.step(received(1))
    assert bench.out.messages == ["first", "second", "third"]


def test_timers_are_set_at_once_even_behind_a_persist() -> None:
    bench = Bench({received(1): [Persist("x"), SetTimer("t", 5), SetTimer("u", 6), CancelTimer("u")]})
    bench.executor.step(received(1))
    assert bench.timers.fire_due(10) == 1
    assert bench.core.events[-1] == Fired("t")


def test_two_cores_with_the_same_timer_key_do_not_collide() -> None:
    benches = [Bench({received(1): [SetTimer("t", 5)]}) for _ in range(2)]
    benches[1].executor._timers = benches[0].timers
    for bench in benches:
        bench.executor.step(received(1))
    assert benches[0].timers.fire_due(5) == 2


def test_a_failed_sync_stops_the_core_for_good() -> None:
    """After an fsync error the state of the pages is unknown; a retry may succeed without writing them."""
    bench = Bench({received(1): [Persist("x", "t"), Send(2, "lost"), SetTimer("t", 5)]})
    bench.store.sync_error = OSError(errno.EIO, "planted")
    bench.executor.step(received(1))
    bench.executor.step(received(1))
    bench.workers.finish()
    assert [str(error) for error in bench.failures] == ["[Errno 5] planted"]
    assert bench.executor.failure is bench.failures[0]
    bench.executor.step(received(1))
    assert bench.out.left == []
    assert len(bench.core.events) == 2
    assert len(bench.timers) == 0
    assert len(bench.failures) == 1


def test_a_failed_write_stops_the_core_and_later_effects() -> None:
    bench = Bench({received(1): [Persist("x"), Send(2, "lost")]})
    bench.store.write_error = OSError(errno.ENOSPC, "planted")
    bench.executor.step(received(1))
    assert bench.out.left == []
    assert [error.errno for error in bench.failures if isinstance(error, OSError)] == [errno.ENOSPC]


def test_an_entry_that_contradicts_the_store_stops_the_core_too() -> None:
    """Only OSError did: after any other error the executor waited for an entry that was never written."""
    bench = Bench({received(1): [Persist("a"), Send(2, "never")]})
    bench.store.write_error = ValueError("planted")
    bench.executor.step(received(1))
    assert [str(failure) for failure in bench.failures] == ["planted"]
    assert bench.out.left == []


def test_a_core_that_raises_is_stopped() -> None:
    """It has changed a part of its state only: the next event would meet a state that must not exist."""
    bench = Bench({})

    def step(event: Event, now_ns: int) -> Sequence[Effect]:
        raise RuntimeError("planted")

    bench.core.step = step  # type: ignore[method-assign]
    bench.executor.step(received(1))
    assert [str(failure) for failure in bench.failures] == ["planted"]
    assert bench.executor.failure is bench.failures[0]


def test_a_closed_executor_reports_when_no_worker_uses_the_store() -> None:
    """Files were closed while a worker synced them."""
    bench = Bench({received(1): [Persist("a")]})
    reports: list[str] = []
    bench.executor.step(received(1))
    bench.executor.close()
    bench.executor.when_idle(lambda: reports.append("idle"))
    assert reports == []
    bench.workers.finish()
    assert reports == ["idle"]
    bench.executor.when_idle(lambda: reports.append("at once"))
    assert reports == ["idle", "at once"]


def test_a_core_that_outruns_its_disk_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "MAX_WAITING_EFFECTS", 10)
    bench = Bench({received(1): [Persist("x"), Send(2, "y")]})
    for _ in range(11):
        bench.executor.step(received(1))
    assert "10 effects wait" in str(bench.failures[0])


def test_a_closed_executor_is_silent() -> None:
    bench = Bench({received(1): [Persist("x", "t"), Send(2, "y"), SetTimer("t", 5)]})
    bench.executor.step(received(1))
    bench.executor.close()
    bench.workers.finish()
    bench.executor.step(received(1))
    assert bench.out.left == []
    assert len(bench.core.events) == 1
    assert len(bench.timers) == 0


def test_the_next_sync_starts_before_effects_are_carried_out() -> None:
    """The disk does not idle while the core's effects are carried out."""
    bench = Bench({received(n): [Persist(n), Apply(n)] for n in (1, 2)})
    syncs: list[int] = []
    bench.out.on_apply = lambda decided: syncs.append(len(bench.workers.waiting))
    bench.executor.step(received(1))
    bench.executor.step(received(2))
    assert len(bench.workers.waiting) == 1
    bench.workers.finish()
    assert syncs == [1]
    bench.workers.finish()
    assert syncs == [1, 0]


def test_nothing_is_synced_after_a_failed_sync() -> None:
    bench = Bench({received(n): [Persist(n), Send(2, n)] for n in (1, 2)})
    bench.store.sync_error = OSError(errno.EIO, "planted")
    bench.executor.step(received(1))
    bench.executor.step(received(2))
    bench.workers.finish()
    assert bench.store.syncs == 1
    assert bench.workers.waiting == []
    assert bench.out.messages == []


def test_workers_that_are_closed_stop_the_core() -> None:
    bench = Bench({received(1): [Persist("x"), Send(2, "y")]})
    bench.executor.step(received(1))
    _, done = bench.workers.waiting.pop()
    done(None, RuntimeError("the workers are closed"))
    assert [str(error) for error in bench.failures] == ["the workers are closed"]
    assert bench.out.left == []


def test_on_real_workers_and_the_reactor() -> None:
    reactor, threads = Reactor(), ThreadWorkers()
    workers = LoopWorkers(threads, reactor.post)
    bench = Bench({received(n): [Persist(n), Send(2, n)] for n in range(500)}, workers)
    for number in range(500):
        bench.executor.step(received(number))
    while bench.executor.waiting:
        reactor.serve(1_000_000)
    assert bench.out.messages == list(range(500))
    assert all(message < synced for _, message, synced in bench.out.left)  # type: ignore[operator]
    assert bench.store.syncs < 500
    threads.close()
    reactor.close()
