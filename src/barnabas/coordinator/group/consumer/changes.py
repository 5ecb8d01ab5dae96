"""What one decision about a consumer group gathers on its way.

What lives here: the entries to write and what soft state is to do once they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.coordinator.decision import Decision
from barnabas.coordinator.entry import Entry
from barnabas.runtime.loop.promise import Promise

R = TypeVar("R")


class Changes:
    """Entries in the order of writing."""

    __slots__ = ("_soft", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._soft: list[Callable[[], None]] = []

    def write(self, entries: Iterable[Entry]) -> None:
        self.entries.extend(entries)

    def then(self, act: Callable[[], None]) -> None:
        """Do this when the entries are written, and not at all if they are not."""
        self._soft.append(act)

    def decision(self, reply: R | Promise[R]) -> Decision[R]:
        return Decision(self.entries, reply, self._accepted)

    def _accepted(self) -> None:
        for act in self._soft:
            act()
