"""An asyncio event loop on the reactor: one thread serves both the data path and asyncio.

Contains the glue, through asyncio's public interface only: a selector that serves the data path inside
`select()` and returns asyncio's own events, and a loop that notifies the reactor when asyncio has work.  A
produce request costs no asyncio tick.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from barnabas.base.units import NS_PER_S
from barnabas.runtime.loop.reactor import Reactor

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _KeysByFile(Mapping[Any, selectors.SelectorKey]):
    """The registered keys; asyncio looks them up by descriptor or by file object."""

    def __init__(self, keys: dict[int, selectors.SelectorKey]) -> None:
        self._keys = keys

    def __getitem__(self, fileobj: Any) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._keys:
            return self._keys[fd]
        # A file object that was closed while registered has lost its number, but is still the same object.
        for key in self._keys.values():
            if key.fileobj is fileobj:
                return key
        raise KeyError(f"{fileobj!r} is not registered")

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter([key.fileobj for key in self._keys.values()])


class ReactorSelector(selectors.BaseSelector):
    """The selector for asyncio.  Its masks are the poller's: 1 is read, 2 is write."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._by_file = _KeysByFile(self._keys)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} (descriptor {fd}) is registered already")
        self._reactor.poller.register(fd, events)
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        old = self._by_file[fileobj]
        if old.events != events:
            self._reactor.poller.modify(old.fd, events)
        key = self._keys[old.fd] = old._replace(events=events, data=data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._by_file[fileobj]
        del self._keys[key.fd]
        try:
            self._reactor.poller.unregister(key.fd)
        except OSError:
            # It was closed without unregistering, and the system has already forgotten it.
            return key
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Rounded up, like asyncio's own selectors: waking up slightly early would make it spin until the
        # deadline.
        timeout_ns = None if timeout is None else max(0, int(timeout * NS_PER_S) + (timeout > 0))
        keys = self._keys
        ready = self._reactor.serve(timeout_ns)
        return [(keys[fd], mask & keys[fd].events) for fd, mask in ready if fd in keys]

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._by_file[fileobj]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._by_file

    def close(self) -> None:
        self._keys.clear()


class ReactorLoop(asyncio.SelectorEventLoop):
    """An ordinary asyncio loop.

    Callbacks that the data path schedules on it from inside `select()` end that `select()`.
    """

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        reactor.on_error = self._report
        super().__init__(ReactorSelector(reactor))

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._reactor.interrupt()
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._reactor.interrupt()
        return super().call_at(when, callback, *args, context=context)

    def stop(self) -> None:
        self._reactor.interrupt()
        super().stop()

    def _report(self, error: Exception) -> None:
        """Reports a failed action of the data path like any other error of this loop; other actions
        continue."""
        self.call_exception_handler({"message": "an action of the data path failed", "exception": error})


def run(reactor: Reactor, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion on a loop over this reactor; then close the loop, not the reactor."""
    with asyncio.Runner(loop_factory=lambda: ReactorLoop(reactor)) as runner:
        return runner.run(main)
