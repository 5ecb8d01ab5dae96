"""Long requests in slices: what is done at once, who takes turns, and what becomes of promises and errors."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from barnabas.broker.network.request_steps import (
    MAX_TURNS,
    RequestWork,
    Steps,
    awaited,
    chunks,
    each,
    finished,
)
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import Timers

SLICE_NS = 10


class Pace:
    """A clock that each step moves, so that slices end where a test says so."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.timers = Timers()
        self.work = RequestWork(self.timers, lambda: self.now_ns, SLICE_NS, 1)
        self.done: list[Any] = []
        self.failed: list[BaseException] = []

    def steps(self, name: str, count: int) -> Steps[str]:
        for _ in range(count):
            self.now_ns += 1
            yield None
        return name

    def start(self, steps: Steps[Any]) -> Any:
        later, cancel = self.work.start(steps)
        later.then(self.done.append, self.failed.append)
        return cancel

    def queue(self, steps: Steps[Any]) -> None:
        self.work.queue(steps)[0].then(self.done.append, self.failed.append)

    def go_on(self) -> None:
        self.now_ns += 1
        self.timers.fire_due(self.now_ns)


def test_what_fits_into_a_slice_is_done_at_once() -> None:
    pace = Pace()
    pace.start(pace.steps("short", SLICE_NS - 1))
    assert pace.done == ["short"]
    assert not pace.timers, "nothing is left to come back for"


def test_long_work_is_done_in_slices() -> None:
    pace = Pace()
    pace.start(pace.steps("long", 5 * SLICE_NS))
    slices = 0
    while not pace.done:
        slices += 1
        before_ns = pace.now_ns
        pace.go_on()
        assert pace.now_ns - before_ns <= SLICE_NS + 1, "the loop is held for a slice"
    assert slices == 5
    assert pace.work.waiting_count == 0


def test_a_short_request_overtakes_a_long_one() -> None:
    pace = Pace()
    pace.start(pace.steps("long", 5 * SLICE_NS))
    pace.start(pace.steps("short", 2))
    assert pace.done == ["short"]


def test_no_more_than_so_many_have_begun() -> None:
    """What has not begun holds its bytes, not the objects that they become."""
    pace = Pace()
    begun: set[int] = set()

    def steps(number: int) -> Steps[int]:
        begun.add(number)
        yield from pace.steps("", 100 * SLICE_NS)
        return number

    for number in range(3 * MAX_TURNS):
        pace.queue(steps(number))
    for _ in range(10 * MAX_TURNS):
        pace.go_on()
    assert begun == set(range(MAX_TURNS))
    while len(pace.done) < 3 * MAX_TURNS:
        pace.go_on()
    assert sorted(pace.done) == list(range(3 * MAX_TURNS))


def test_a_promise_is_waited_for_and_its_value_comes_back() -> None:
    pace = Pace()
    promise: Promise[int] = Promise()

    def steps() -> Steps[int]:
        return (yield from awaited(promise)) + (yield from awaited(Promise.of(1)))

    pace.start(steps())
    pace.start(pace.steps("other", 1))
    assert pace.done == ["other"], "a waiting request does not delay others"
    promise.set(41)
    assert pace.done == ["other", 42]


def test_a_broken_promise_is_raised_where_it_is_waited_for() -> None:
    pace = Pace()
    promise: Promise[int] = Promise()

    def steps() -> Steps[str]:
        try:
            yield from awaited(promise)
        except KeyError:
            return "caught"
        return "not"

    pace.start(steps())
    promise.fail(KeyError())
    assert pace.done == ["caught"]


def test_an_error_of_the_steps_is_the_promise_s() -> None:
    pace = Pace()

    def steps() -> Steps[None]:
        yield None
        raise ValueError("no")

    pace.start(steps())
    assert [str(error) for error in pace.failed] == ["no"]
    pace.start(pace.steps("next", 1))
    assert pace.done == ["next"]


def test_work_that_nobody_waits_for_any_more_ends() -> None:
    pace = Pace()
    ended: list[bool] = []

    def steps() -> Generator[Any, None, None]:
        try:
            yield from pace.steps("", 100 * SLICE_NS)
        finally:
            ended.append(True)

    cancel = pace.start(steps())
    cancel()
    pace.go_on()
    assert ended
    assert pace.done == []
    assert pace.work.waiting_count == 0


def test_a_result_that_asks_for_more_work_is_no_recursion() -> None:
    pace = Pace()

    def again(_: object) -> None:
        pace.start(pace.steps("second", 1))

    later, _ = pace.work.start(pace.steps("first", 1))
    later.then(again, pace.failed.append)
    pace.go_on()
    assert pace.done == ["second"]


def test_run_now_gives_the_value_or_nothing() -> None:
    pace = Pace()
    assert pace.work.run_now(pace.steps("short", 3)) == "short"
    assert pace.work.run_now(pace.steps("long", 3 * SLICE_NS)) is None


def test_the_small_helpers() -> None:
    assert list(chunks([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert finished(each([1, 2], str)) == ["1", "2"]
    with pytest.raises(ZeroDivisionError):
        finished(each([0], lambda number: 1 / number))
