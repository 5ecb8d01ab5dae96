"""A loop in a thread: waiting for it, being called back by it, ending it."""

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


def test_work_runs_on_the_loop_and_is_waited_for(thread: LoopThread) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert thread.run(work()) == "test"


def test_errors_come_back(thread: LoopThread) -> None:
    async def work() -> None:
        raise ValueError("from the loop")

    with pytest.raises(ValueError, match="from the loop"):
        thread.run(work())


def test_the_caller_does_what_the_work_asks_of_it(thread: LoopThread) -> None:
    async def work() -> tuple[str, str]:
        return await in_caller(lambda: threading.current_thread().name), threading.current_thread().name

    assert thread.run(work()) == (threading.current_thread().name, "test")


def test_what_the_caller_is_asked_may_wait_for_the_loop_itself(thread: LoopThread) -> None:
    async def inner() -> int:
        await asyncio.sleep(0)
        return 7

    async def work() -> int:
        return await in_caller(lambda: thread.run(inner()))

    assert thread.run(work()) == 7


def test_a_fault_in_the_callers_part_is_the_works(thread: LoopThread) -> None:
    def fail() -> None:
        raise RuntimeError("in the caller")

    async def work() -> str:
        with pytest.raises(RuntimeError, match="in the caller"):
            await in_caller(fail)
        return "gone on"

    assert thread.run(work()) == "gone on"


def test_waiting_for_oneself_is_refused(thread: LoopThread) -> None:
    async def inner() -> None:
        """Never started."""

    async def work() -> None:
        with pytest.raises(RuntimeError, match="callback"):
            thread.run(inner())

    thread.run(work())


def test_without_a_waiting_caller_the_loop_does_it_itself() -> None:
    async def work() -> str:
        return await in_caller(lambda: threading.current_thread().name)

    assert asyncio.run(work()) == threading.current_thread().name


def test_the_end_cancels_what_still_runs() -> None:
    thread = LoopThread("ending")
    heard: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    thread.submit(for_ever())
    # It was started before this one, and so waits by now.
    thread.run(asyncio.sleep(0.01))
    thread.end()
    thread.end()
    assert heard == ["cancelled"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_finds_nothing_half_done_and_the_loop_goes_on(thread: LoopThread) -> None:
    is_begun = threading.Event()
    done: list[str] = []

    def step() -> None:
        is_begun.set()
        time.sleep(0.5)
        done.append("all of it")

    thread.call_soon(step)
    is_begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert thread.run(asyncio.sleep(0, "it goes on")) == "it goes on"
