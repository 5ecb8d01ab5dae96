from __future__ import annotations

from typing import Any

from barnabas.coordinator.decision import NOTHING, Decision
from barnabas.coordinator.timers import MIN_QUEUE_TO_SWEEP, Timers


class Ring:
    def __init__(self) -> None:
        self.timers = Timers()
        self.rang: list[str] = []

    def set(self, key: str, delay_ms: int) -> None:
        def due(context: Any) -> Decision[None]:
            self.rang.append(key)
            return Decision((), None)

        self.timers.schedule(key, delay_ms, due)

    def at(self, now_ms: int) -> list[str]:
        self.timers.now_ms = now_ms
        self.rang.clear()
        while (due := self.timers.pop_due()) is not None:
            due[1](None)  # type: ignore[arg-type]  # not used here
        return list(self.rang)


def test_timers_are_due_in_the_order_of_their_deadlines() -> None:
    ring = Ring()
    ring.set("late", 30)
    ring.set("early", 10)
    ring.set("also early", 10)
    assert ring.timers.next_deadline() == 10
    assert ring.at(9) == []
    assert ring.at(30) == ["early", "also early", "late"]
    assert ring.timers.next_deadline() is None
    assert len(ring.timers) == 0


def test_a_timer_that_is_scheduled_again_moves() -> None:
    ring = Ring()
    ring.set("session", 10)
    ring.timers.now_ms = 5
    ring.set("session", 10)
    assert ring.at(14) == []
    assert ring.at(15) == ["session"]
    ring.set("session", 100)
    ring.set("session", 10)
    assert ring.at(25) == ["session"]
    assert ring.at(1000) == []


def test_a_cancelled_timer_is_never_due() -> None:
    ring = Ring()
    ring.set("one", 10)
    ring.set("two", 10)
    ring.timers.cancel("one")
    ring.timers.cancel("nobody")
    assert not ring.timers.has("one")
    assert ring.timers.has("two")
    assert ring.at(10) == ["two"]


def test_a_timer_may_be_scheduled_again_after_it_was_cancelled_or_ran() -> None:
    ring = Ring()
    ring.set("one", 10)
    ring.timers.cancel("one")
    ring.set("one", 20)
    assert ring.at(15) == []
    assert ring.at(20) == ["one"]
    ring.set("one", 5)
    assert ring.at(25) == ["one"]


def test_a_session_that_is_always_extended_keeps_one_queue_entry() -> None:
    ring = Ring()
    for now_ms in range(10_000):
        ring.timers.now_ms = now_ms
        ring.set("session", 100)
    assert len(ring.timers._queue) == 1


def test_stale_timers_do_not_accumulate() -> None:
    ring = Ring()
    for number in range(10_000):
        ring.set(f"member {number}", 1_000)
        ring.timers.cancel(f"member {number}")
    assert len(ring.timers._queue) <= MIN_QUEUE_TO_SWEEP + 1


def test_a_timer_moved_earlier_repeatedly_leaves_no_stale_entries() -> None:
    timers = Timers()
    for delay_ms in range(10_000, 0, -1):
        timers.schedule("one", delay_ms, lambda context: NOTHING)
    assert len(timers) == 1
    assert len(timers._queue) <= MIN_QUEUE_TO_SWEEP + 1
    assert timers.next_deadline() == 1


def test_a_timer_that_was_moved_to_a_later_time_does_not_hold_up_the_others() -> None:
    ring = Ring()
    for key in ("moved", "also moved"):
        ring.set(key, 10)
        ring.set(key, 100)
    ring.set("second", 20)
    ring.set("third", 30)
    assert ring.at(30) == ["second", "third"]
    assert ring.at(99) == []
    assert ring.at(100) == ["moved", "also moved"]
