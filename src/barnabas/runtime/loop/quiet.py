"""A poller that knows whether anything was ready: for those who wait until nothing happens any more."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.runtime.loop.poller import make_poller


class QuietPoller:
    """Another poller, watched."""

    def __init__(self) -> None:
        self._poller = make_poller()
        self.kind = self._poller.kind
        # Whether the last call found anything.
        self.found = False
        self._next: list[Callable[[], None]] = []

    def at_next_turn(self, action: Callable[[], None]) -> None:
        """Call it after the next look at the sockets, which does not wait; on the loop's thread."""
        self._next.append(action)

    def register(self, fd: int, mask: int) -> None:
        self._poller.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self._poller.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        self._poller.unregister(fd)

    def poll(self, timeout_ns: int | None) -> list[tuple[int, int]]:
        actions, self._next = self._next, []
        for action in actions:
            action()
        ready = self._poller.poll(0 if self._next else timeout_ns)
        self.found = bool(ready)
        return ready

    def close(self) -> None:
        self._poller.close()
