"""The purgatory: keys, counting, deadlines, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.base.errors import KafkaError
from barnabas.replica import purgatory as waiting
from barnabas.replica.purgatory import DelayedOperation, Purgatory
from barnabas.runtime.loop.timers import Timers


class Waits(DelayedOperation):
    __slots__ = ("events", "looks", "ready")

    def __init__(self, missing: int = 0, *, ready: bool = True) -> None:
        super().__init__(missing)
        self.events: list[str] = []
        self.looks = 0
        self.ready = ready

    def try_complete(self) -> bool:
        self.looks += 1
        if self.ready:
            self.events.append("done")
        return self.ready

    def expire(self) -> None:
        self.events.append("expired")

    def fail(self, error: BaseException) -> None:
        raise AssertionError("it has no fault") from error


class Room:
    def __init__(self) -> None:
        self.timers = Timers()
        self.tick_end: list[Callable[[], None]] = []
        self.purgatory = Purgatory(self.timers, self.tick_end.append)

    def end_tick(self) -> None:
        actions, self.tick_end[:] = list(self.tick_end), []
        for action in actions:
            action()


def test_one_is_looked_at_once_at_the_end_of_the_tick() -> None:
    world = Room()
    operation = Waits()
    world.purgatory.wait(operation, ["a", "b"], 100)
    for _ in range(10):
        world.purgatory.changed("a")
        world.purgatory.changed("b")
    assert operation.looks == 0
    assert len(world.tick_end) == 1
    world.end_tick()
    assert (operation.looks, operation.events) == (1, ["done"])
    assert len(world.purgatory) == world.purgatory.watched_keys == len(world.timers) == 0


def test_one_that_is_not_ready_goes_on_waiting() -> None:
    world = Room()
    operation = Waits(ready=False)
    world.purgatory.wait(operation, ["a"], 100)
    world.purgatory.changed("a")
    world.end_tick()
    assert (operation.looks, len(world.purgatory)) == (1, 1)
    operation.ready = True
    world.purgatory.changed("other")
    world.end_tick()
    assert operation.looks == 1
    world.purgatory.changed("a")
    world.end_tick()
    assert operation.events == ["done"]


def test_one_that_counts_is_not_looked_at_before_there_is_enough() -> None:
    world = Room()
    operation = Waits(missing=100)
    world.purgatory.wait(operation, ["a", "b"], 100)
    world.purgatory.arrived("a", 60)
    world.purgatory.arrived("other", 60)
    assert not world.tick_end
    world.purgatory.arrived("b", 39)
    assert not world.tick_end
    world.purgatory.arrived("b", 1)
    world.end_tick()
    assert operation.events == ["done"]


def test_a_change_is_worth_a_look_however_much_is_missing() -> None:
    world = Room()
    operation = Waits(missing=1000)
    world.purgatory.wait(operation, ["a"], 100)
    world.purgatory.changed("a")
    world.end_tick()
    assert operation.events == ["done"]


def test_the_deadline_comes_once() -> None:
    world = Room()
    operation = Waits(ready=False)
    world.purgatory.wait(operation, ["a", "b"], 100)
    world.timers.fire_due(99)
    assert operation.events == []
    world.purgatory.changed("a")
    world.timers.fire_due(100)
    world.end_tick()
    assert (operation.events, operation.looks) == (["expired"], 0)
    assert len(world.purgatory) == world.purgatory.watched_keys == len(world.timers) == 0


def test_one_whose_client_is_gone_is_forgotten() -> None:
    world = Room()
    operation, other = Waits(), Waits()
    world.purgatory.wait(operation, ["a", "b"], 100)
    world.purgatory.wait(other, ["b"], 100)
    world.purgatory.changed("b")
    world.purgatory.forget(operation)
    world.purgatory.forget(operation)
    world.end_tick()
    world.timers.fire_due(1000)
    assert operation.events == []
    assert other.events == ["done"]
    assert world.purgatory.watched_keys == 0


def test_a_thousand_waiters_of_a_thousand_keys_leave_nothing_behind() -> None:
    world = Room()
    for number in range(1000):
        world.purgatory.wait(Waits(ready=number % 2 == 0), range(number % 7, 1000, 7), 50 + number)
    for key in range(1000):
        world.purgatory.changed(key)
    world.end_tick()
    assert len(world.purgatory) == 500
    world.timers.fire_due(2000)
    assert len(world.purgatory) == world.purgatory.watched_keys == len(world.timers) == 0


class Breaks(Waits):
    """F5: a delayed operation with a fault in it."""

    __slots__ = ()

    def try_complete(self) -> bool:
        raise RuntimeError("broken look")

    def expire(self) -> None:
        raise RuntimeError("broken end")

    def fail(self, error: BaseException) -> None:
        self.events.append(f"failed: {error}")


def test_a_delayed_operation_that_fails_is_answered_logged_and_swept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F5: nobody answered the client, and the others of its key went on only by luck."""
    world = Room()
    bad, good = Breaks(), Waits()
    world.purgatory.wait(bad, ["a"], 100)
    world.purgatory.wait(good, ["a"], 100)
    world.purgatory.changed("a")
    world.end_tick()
    assert bad.events == ["failed: broken look"]
    assert good.events == ["done"]
    assert len(world.purgatory) == world.purgatory.watched_keys == len(world.timers) == 0
    assert "broken look" in caplog.text


def test_a_delayed_operation_that_fails_at_its_deadline_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """F5: the fault went to the timers' owner, and the client got nothing."""
    world = Room()
    bad, late = Breaks(), Waits(ready=False)
    world.purgatory.wait(bad, ["a"], 100)
    world.purgatory.wait(late, ["a"], 100)
    world.timers.fire_due(100)
    assert bad.events == ["failed: broken end"]
    assert late.events == ["expired"]
    assert len(world.purgatory) == world.purgatory.watched_keys == len(world.timers) == 0
    assert "broken end" in caplog.text


def test_a_client_that_cannot_be_answered_does_not_hurt_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """F5: the last resort of one operation may fail as well."""

    class Hopeless(Breaks):
        __slots__ = ()

        def fail(self, error: BaseException) -> None:
            raise RuntimeError("hopeless")

    world = Room()
    bad, good = Hopeless(), Waits()
    world.purgatory.wait(bad, ["a"], 100)
    world.purgatory.wait(good, ["a"], 100)
    world.purgatory.changed("a")
    world.end_tick()
    assert good.events == ["done"]
    assert len(world.purgatory) == 0
    assert "hopeless" in caplog.text


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "DELAYED_OPERATIONS_MAX", 2)
    world = Room()
    for _ in range(2):
        world.purgatory.wait(Waits(), ["a"], 100)
    with pytest.raises(KafkaError, match="try again later"):
        world.purgatory.wait(Waits(), ["a"], 100)
    world.purgatory.close()
    assert len(world.purgatory) == 0
