from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.broker.sliced_work import PAUSE_NS, SLICE_NS, SlicedWork
from barnabas.runtime.loop.timers import Timers


class World:
    def __init__(self) -> None:
        self.now_ns = 0
        self.timers = Timers()
        self.done: list[str] = []
        self.slices = 0
        self.work = SlicedWork(self.timers, lambda: self.now_ns, self.after_slice)

    def after_slice(self) -> None:
        self.slices += 1

    def steps(self, name: str, count: int, step_ns: int) -> Iterator[None]:
        for number in range(count):
            self.now_ns += step_ns
            self.done.append(f"{name}{number}")
            yield

    def pass_time(self) -> None:
        self.now_ns += PAUSE_NS
        self.timers.fire_due(self.now_ns)


def test_little_is_done_at_once() -> None:
    world = World()
    world.work.add(world.steps("a", 3, SLICE_NS // 10))
    assert world.done == ["a0", "a1", "a2"]
    assert world.work.is_done
    assert world.slices == 1
    assert world.timers.next_deadline_ns() is None


def test_much_is_done_in_slices_and_in_order() -> None:
    world = World()
    world.work.add(world.steps("a", 5, SLICE_NS // 2))
    assert world.done == ["a0", "a1"]
    # What comes later waits, however little it is.
    world.work.add(world.steps("b", 1, 0))
    assert world.done == ["a0", "a1"]
    world.pass_time()
    assert world.done == ["a0", "a1", "a2", "a3"]
    world.pass_time()
    assert world.done == ["a0", "a1", "a2", "a3", "a4", "b0"]
    assert world.work.is_done
    assert world.slices == 3


def test_a_step_may_add_more() -> None:
    world = World()

    def adding() -> Iterator[None]:
        world.work.add(world.steps("b", 1, 0))
        world.done.append("a0")
        yield
        world.done.append("a1")

    world.work.add(adding())
    assert world.done == ["a0", "a1", "b0"]


def test_steps_that_fail_do_not_stop_the_others() -> None:
    world = World()

    def failing() -> Iterator[None]:
        yield
        raise ValueError("no")

    world.work.add(world.steps("a", 3, SLICE_NS // 2))
    world.work.add(failing())
    world.work.add(world.steps("b", 1, 0))
    with pytest.raises(ValueError):
        world.pass_time()
    world.pass_time()
    assert world.done == ["a0", "a1", "a2", "b0"]


def test_what_is_left_is_forgotten() -> None:
    world = World()
    world.work.add(world.steps("a", 3, SLICE_NS))
    world.work.stop()
    world.pass_time()
    assert world.done == ["a0"]
    assert world.timers.next_deadline_ns() is None

    def stopping() -> Iterator[None]:
        world.work.stop()
        yield

    world.work.add(stopping())
    assert world.work.is_done
