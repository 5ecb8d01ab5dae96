"""A ZooKeeper client for tools: its loop runs in a thread, and calls wait for their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor_thread import ReactorThread
from barnabas.runtime.zookeeper.client import ConnectionTimeout, SessionState, ZooKeeperClient
from barnabas.runtime.zookeeper.kazoo_client import KazooZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions

T = TypeVar("T")

SESSION_TIMEOUT_MS = 30_000
# How long an answer may take: longer than a new leader of the ensemble.
ANSWER_TIMEOUT_S = 60.0


class BlockingZooKeeper:
    """One session, from construction to `close`; use it as a context."""

    def __init__(
        self, connect: str, timeout_ms: int, on_state: Callable[[SessionState], None] | None = None
    ) -> None:
        """Connects, or raises ConnectionTimeout; a missing chroot is not created."""
        self._thread = ReactorThread("zookeeper-loop")
        reactor = self._thread.reactor
        self.client: ZooKeeperClient = KazooZooKeeperClient(
            ZooKeeperOptions(connect, SESSION_TIMEOUT_MS, timeout_ms, create_chroot=False),
            post=reactor.post,
            timers=reactor.timers,
            clock=SystemClock(),
        )
        if on_state is not None:
            self.client.on_state(on_state)
        try:
            self._thread.finish(self.client.start, timeout_ms / 1000 + ANSWER_TIMEOUT_S)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise ConnectionTimeout(connect, timeout_ms) from error
            raise

    def run(self, begin: Callable[[], Promise[T]]) -> T:
        """Call it on the loop, and return what its promise becomes."""
        return self._thread.finish(begin, ANSWER_TIMEOUT_S)

    def close(self) -> None:
        try:
            self._thread.finish(self.client.close, ANSWER_TIMEOUT_S)
        finally:
            self._thread.end()

    def __enter__(self) -> BlockingZooKeeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
