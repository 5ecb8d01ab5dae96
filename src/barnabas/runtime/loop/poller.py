"""Pollers: which of many sockets can be read or written now.

Contains one small interface and its implementations: epoll (Linux), and any selector of the standard library
(kqueue on a Mac, poll, select).

Every kind is level-triggered: data that a handler leaves unread is reported again.
"""

from __future__ import annotations

import select
import selectors
from typing import Protocol

from barnabas.base.units import NS_PER_MS, NS_PER_S

READ = 1
WRITE = 2

# Epoll reports at most this many descriptors per call; the others come first in the next call.
MAX_READY = 256


class Poller(Protocol):
    """The readiness interface of the operating system."""

    @property
    def kind(self) -> str: ...

    def register(self, fd: int, mask: int) -> None:
        """Start watching; the mask is READ, WRITE or both, never 0."""
        ...

    def modify(self, fd: int, mask: int) -> None: ...

    def unregister(self, fd: int) -> None: ...

    def poll(self, timeout_ns: int | None) -> list[tuple[int, int]]:
        """Wait for readiness, without a limit if None.

        Returns pairs of descriptor and mask.  An error is reported as READ | WRITE.
        """
        ...

    def close(self) -> None: ...


class EpollPoller:
    """Linux: the cost of a call does not grow with the number of idle connections."""

    kind = "epoll"

    def __init__(self) -> None:
        self._epoll = select.epoll()

    def register(self, fd: int, mask: int) -> None:
        self._epoll.register(fd, _EPOLL_MASKS[mask])

    def modify(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, _EPOLL_MASKS[mask])

    def unregister(self, fd: int) -> None:
        self._epoll.unregister(fd)

    def poll(self, timeout_ns: int | None) -> list[tuple[int, int]]:
        # Epoll counts in milliseconds; rounding up avoids spinning for a timer that is due in 0.3 ms.
        timeout_s = -1 if timeout_ns is None else -(-timeout_ns // NS_PER_MS) / 1_000
        ready = self._epoll.poll(timeout_s, MAX_READY)
        masks = _READY_MASKS
        return [(fd, masks.get(bits) or _ready_mask(bits)) for fd, bits in ready]

    def close(self) -> None:
        self._epoll.close()


class SelectorPoller:
    """Any selector of the standard library."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self.kind = type(selector).__name__.removesuffix("Selector").lower()

    def register(self, fd: int, mask: int) -> None:
        self._selector.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self._selector.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout_ns: int | None) -> list[tuple[int, int]]:
        timeout_s = None if timeout_ns is None else timeout_ns / NS_PER_S
        return [(key.fd, mask) for key, mask in self._selector.select(timeout_s)]

    def close(self) -> None:
        self._selector.close()


KINDS = ("epoll", "kqueue", "poll", "select")


def make_poller(kind: str | None = None) -> Poller:
    """The best kind this system has, or the requested one."""
    if kind is None:
        kind = next(each for each in KINDS if hasattr(select, each))
    if kind not in KINDS or not hasattr(select, kind):
        available = ", ".join(each for each in KINDS if hasattr(select, each))
        raise ValueError(f"this system has no poller {kind!r}; it has: {available}")
    if kind == "epoll":
        return EpollPoller()
    return SelectorPoller(getattr(selectors, f"{kind.capitalize()}Selector")())


def _ready_mask(bits: int) -> int:
    """Our mask for epoll's bits: an error or a hang-up sets both, so that either side notices it."""
    if bits & ~(_EPOLLIN | _EPOLLOUT):
        return READ | WRITE
    return (READ if bits & _EPOLLIN else 0) | (WRITE if bits & _EPOLLOUT else 0)


_EPOLLIN = 0x001
_EPOLLOUT = 0x004
_EPOLL_MASKS = {READ: _EPOLLIN, WRITE: _EPOLLOUT, READ | WRITE: _EPOLLIN | _EPOLLOUT}
_READY_MASKS = {_EPOLLIN: READ, _EPOLLOUT: WRITE, _EPOLLIN | _EPOLLOUT: READ | WRITE}
