"""Timers: order, moving, cancelling, and a heap that stays small."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.runtime.loop.timers import COMPACT_ABOVE, MAX_FIRED_PER_CALL, Timers


def test_timers_fire_in_order_of_deadline_and_then_of_setting() -> None:
    timers = Timers()
    fired: list[Any] = []
    for key, deadline in (("c", 30), ("a", 10), ("b1", 20), ("b2", 20)):
        timers.set(key, deadline, partial(fired.append, key))
    assert timers.next_deadline_ns() == 10
    assert timers.fire_due(20) == 3
    assert fired == ["a", "b1", "b2"]
    assert len(timers) == 1
    assert "c" in timers


def test_setting_a_key_again_moves_it() -> None:
    timers = Timers()
    fired: list[Any] = []
    timers.set("key", 10, partial(fired.append, "early"))
    timers.set("key", 50, partial(fired.append, "late"))
    timers.fire_due(40)
    assert fired == []
    timers.fire_due(50)
    assert fired == ["late"]


def test_cancelling_removes_and_may_be_repeated() -> None:
    timers = Timers()
    timers.set("key", 10, lambda: None)
    timers.cancel("key")
    timers.cancel("key")
    assert timers.next_deadline_ns() is None
    assert timers.fire_due(100) == 0
    assert timers.pop() is None


def test_a_timer_that_is_postponed_forever_does_not_grow_the_heap() -> None:
    timers = Timers()
    for deadline in range(100_000):
        timers.set("session", deadline, lambda: None)
    assert timers.heap_size <= COMPACT_ABOVE + 2


def test_an_action_that_sets_itself_again_does_not_block_the_loop() -> None:
    timers = Timers()

    def again() -> None:
        timers.set("again", 0, again)

    again()
    assert timers.fire_due(1) == MAX_FIRED_PER_CALL
    assert "again" in timers


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 20), st.integers(0, 1000)),
            st.tuples(st.just("cancel"), st.integers(0, 20), st.just(0)),
            st.tuples(st.just("fire"), st.just(0), st.integers(0, 1000)),
        ),
        max_size=300,
    )
)
def test_timers_agree_with_a_plain_model(operations: list[tuple[str, int, int]]) -> None:
    timers = Timers()
    fired: list[Any] = []
    model: dict[int, tuple[int, int]] = {}
    for order, (operation, key, number) in enumerate(operations):
        if operation == "set":
            timers.set(key, number, partial(fired.append, key))
            model[key] = (number, order)
        elif operation == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            due = sorted((when, key) for key, when in model.items() if when[0] <= number)
            fired.clear()
            timers.fire_due(number)
            assert fired == [key for _, key in due]
            for _, key in due:
                del model[key]
        assert len(timers) == len(model)
        assert timers.heap_size <= max(COMPACT_ABOVE, 2 * len(model)) + 1
