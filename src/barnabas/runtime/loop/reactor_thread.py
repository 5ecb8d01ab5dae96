"""A reactor in its own thread, for programs that run brokers beside their own code: starting and ending the
thread, work on it that the caller waits for, and waiting for a condition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from barnabas.base.units import NS_PER_S
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.loop.poller import Poller
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor import Reactor

T = TypeVar("T")

END_PATIENCE_S = 30.0
# The first pause between two looks at a condition, and the longest.
FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.02


class ReactorThread:
    """One reactor and the thread that serves it."""

    def __init__(self, name: str, *, clock: Clock | None = None, poller: Poller | None = None) -> None:
        self.reactor = Reactor(clock=clock, poller=poller)
        self._is_over = False
        # A daemon thread, so that a program that does not end it still exits.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def finish(self, begin: Callable[[], Promise[T]], timeout_s: float) -> T:
        """Begin something on the reactor, and return the value of its promise; TimeoutError if it takes
        longer."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                begin().then(future.set_result, future.set_exception)
            except BaseException as error:
                future.set_exception(error)

        self.reactor.post(run)
        return future.result(timeout_s)

    def call(self, action: Callable[[], T], timeout_s: float) -> T:
        """Run it on the reactor and return its result; TimeoutError if that takes longer."""
        return self.finish(lambda: Promise.of(action()), timeout_s)

    def end(self) -> None:
        """Ends the thread and closes the reactor; what it served must be closed already."""
        self.reactor.post(self._stop)
        self._thread.join(END_PATIENCE_S)
        self.reactor.close()

    def _stop(self) -> None:
        self._is_over = True
        self.reactor.interrupt()

    def _serve(self) -> None:
        while not self._is_over:
            self.reactor.serve(None)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Looks again and again until the condition holds; returns whether it did in time."""
    clock = SystemClock()
    deadline_ns = clock.monotonic_ns() + int(timeout_s * NS_PER_S)
    pause_s = FIRST_PAUSE_S
    while not condition():
        left_s = (deadline_ns - clock.monotonic_ns()) / NS_PER_S
        if left_s <= 0:
            return False
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return True


def pause(seconds: float) -> None:
    """Blocks the calling thread, which must not be a loop's: for a device that is slow on purpose."""
    time.sleep(seconds)
