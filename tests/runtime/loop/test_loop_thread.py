"""A loop in a thread: waiting for it, calls back to the caller, ending it."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from barnabas.runtime.loop.loop_thread import LoopThread, in_caller


@pytest.fixture
def thread() -> object:
    made = LoopThread("test")
    yield made
    made.end()


def test_work_runs_on_the_loop_while_the_caller_waits(thread: LoopThread) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert thread.run(work()) == "test"


def test_errors_are_raised_in_the_caller(thread: LoopThread) -> None:
    async def work() -> None:
        raise ValueError("from the loop")

    with pytest.raises(ValueError, match="from the loop"):
        thread.run(work())


def test_the_caller_runs_the_calls_of_the_coroutine(thread: LoopThread) -> None:
    async def work() -> tuple[str, str]:
        return await in_caller(lambda: threading.current_thread().name), threading.current_thread().name

    assert thread.run(work()) == (threading.current_thread().name, "test")


def test_a_call_in_the_caller_may_wait_for_the_loop(thread: LoopThread) -> None:
    async def inner() -> int:
        await asyncio.sleep(0)
        return 7

    async def work() -> int:
        return await in_caller(lambda: thread.run(inner()))

    assert thread.run(work()) == 7


def test_an_error_in_the_caller_is_raised_in_the_coroutine(thread: LoopThread) -> None:
    def fail() -> None:
        raise RuntimeError("in the caller")

    async def work() -> str:
        with pytest.raises(RuntimeError, match="in the caller"):
            await in_caller(fail)
        return "continued"

    assert thread.run(work()) == "continued"


def test_waiting_on_the_own_thread_is_an_error(thread: LoopThread) -> None:
    async def inner() -> None:
        """Never started."""

    async def work() -> None:
        with pytest.raises(RuntimeError, match="callback"):
            thread.run(inner())

    thread.run(work())


def test_without_a_waiting_caller_the_loop_makes_the_call() -> None:
    async def work() -> str:
        return await in_caller(lambda: threading.current_thread().name)

    assert asyncio.run(work()) == threading.current_thread().name


def test_the_end_cancels_running_tasks() -> None:
    thread = LoopThread("ending")
    events: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    thread.submit(for_ever())
    # It was started before this one, and so is waiting by now.
    thread.run(asyncio.sleep(0.01))
    thread.end()
    thread.end()
    assert events == ["cancelled"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_finds_nothing_unfinished_and_the_loop_continues(thread: LoopThread) -> None:
    done = _begin_step(thread)
    child = os.fork()
    if child == 0:
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert thread.run(asyncio.sleep(0, "continued")) == "continued"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("ended", [0, 1])
def test_a_loop_that_has_just_ended_does_not_keep_a_fork_from_holding_the_others(
    ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either of two loops: their order is not known."""
    threads = [LoopThread("first"), LoopThread("second")]
    for each in threads:
        each.run(asyncio.sleep(0))
    other = threads[1 - ended]
    done = _begin_step(other)

    def call_soon(*_: object) -> None:
        raise RuntimeError("Event loop is closed")

    monkeypatch.setattr(threads[ended], "call_soon", call_soon)
    child = os.fork()
    if child == 0:
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    monkeypatch.undo()
    for each in threads:
        each.end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("forking", [0, 1])
def test_a_loop_that_forks_holds_the_others_but_not_itself(forking: int) -> None:
    threads = [LoopThread("first"), LoopThread("second")]
    for each in threads:
        each.run(asyncio.sleep(0))
    done = _begin_step(threads[1 - forking])

    async def fork() -> int:
        child = os.fork()
        if child == 0:
            os._exit(0 if done else 1)
        return os.waitpid(child, 0)[1]

    assert threads[forking].run(fork()) == 0
    for each in threads:
        each.end()


def _begin_step(thread: LoopThread) -> list[str]:
    """Has the loop begin a long step; the list is empty until that is over."""
    is_begun = threading.Event()
    done: list[str] = []

    def step() -> None:
        is_begun.set()
        time.sleep(0.5)
        done.append("all of it")

    thread.call_soon(step)
    is_begun.wait()
    return done
