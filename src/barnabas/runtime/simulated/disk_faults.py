"""Faults of the simulated disk.

Contains the count and journal of operations, planned faults, delays, and the moment of power loss.  The
content of files, and what of it survives a power loss, belongs in simulated.file and simulated.disk.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import NamedTuple

from barnabas.runtime.random import Random

JOURNAL_MAX = 100_000
"""Operations kept in the journal; the oldest are dropped first."""

FAULTS_MAX = 1_000
"""Maximum number of planned faults and delays."""


class PowerLost(BaseException):
    """The machine is off.

    Not an Exception: no handler of the code under test may treat it as an error it can handle.
    """


class Kind(StrEnum):
    """Kinds of operation."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    RENAME = "rename"
    REMOVE = "remove"
    MAKE_FOLDER = "make_folder"
    SYNC_FOLDER = "sync_folder"
    SET_MODIFIED = "set_modified"
    OPEN = "open"
    READ = "read"
    LIST = "list"
    STAT = "stat"
    LOCK = "lock"


LOOKING = frozenset({Kind.OPEN, Kind.READ, Kind.LIST, Kind.STAT, Kind.LOCK})
"""Kinds that change nothing: not numbered, not in the journal, and no moment for a power loss."""

CHANGING = frozenset(Kind) - LOOKING

SYNCS = frozenset({Kind.SYNC, Kind.SYNC_FOLDER})
"""Kinds that wait for the device."""


class Operation(NamedTuple):
    """One entry of the journal."""

    number: int
    kind: Kind
    path: str
    length: int


class Fault:
    """An error that some operations will raise."""

    __slots__ = ("_kinds", "_path", "_skip", "_times", "code", "kept_bytes")

    def __init__(
        self, nth: int, code: int, kinds: Collection[Kind], path: str, times: int, kept_bytes: int
    ) -> None:
        self.code = code
        self.kept_bytes = kept_bytes
        self._kinds = frozenset(kinds)
        self._path = re.compile(fnmatch.translate(path))
        self._skip = nth - 1
        self._times = times

    @property
    def spent(self) -> bool:
        return self._times <= 0

    def meets(self, kind: Kind, path: str) -> bool:
        """True when this operation must fail; counts it."""
        if kind not in self._kinds or self._times <= 0 or not self._path.match(path):
            return False
        if self._skip > 0:
            self._skip -= 1
            return False
        self._times -= 1
        return True

    def error(self, path: str) -> OSError:
        return OSError(self.code, os.strerror(self.code), path)


class Delay(NamedTuple):
    """The duration of some operations."""

    delay_ms: int
    kinds: frozenset[Kind]
    path: re.Pattern[str]


class Faults(ABC):
    """Every operation of a simulated disk calls `begin`, then has its effect, and calls `done` if it is a
    change."""

    def __init__(self, random: Random) -> None:
        self.operations = 0
        self.journal: deque[Operation] = deque(maxlen=JOURNAL_MAX)
        self.read_only = False
        """True: every change fails with EROFS."""
        self.on_operation: Callable[[Operation], None] | None = None
        """Called after every change."""
        self.on_delay: Callable[[int], None] | None = None
        """Called with the duration of an operation in milliseconds, for a simulated clock."""
        self.on_sync: Callable[[Kind, str], None] | None = None
        """Called before each sync, to find syncs on an event loop."""
        self._random = random
        self._faults: list[Fault] = []
        self._delays: list[Delay] = []
        self._crash_at: int | None = None
        self._crash_with_effect = True

    @abstractmethod
    def power_loss(self) -> None:
        """Cut the power now."""

    def fail(
        self,
        nth: int,
        code: int,
        *,
        kinds: Collection[Kind] = CHANGING,
        path: str = "*",
        times: int = 1,
        kept_bytes: int = 0,
    ) -> None:
        """Make the nth operation from now (1 is the next) of these kinds and paths fail, for some `times`.

        A failing write first writes `kept_bytes`.  A failing sync loses what it could not write.
        """
        self._faults = [fault for fault in self._faults if not fault.spent]
        _refuse_too_many(len(self._faults))
        self._faults.append(Fault(nth, code, kinds, path, times, kept_bytes))

    def slow(self, delay_ms: int, *, kinds: Collection[Kind] = frozenset(Kind), path: str = "*") -> None:
        """Report this many milliseconds to `on_delay` for each such operation."""
        _refuse_too_many(len(self._delays))
        self._delays.append(Delay(delay_ms, frozenset(kinds), re.compile(fnmatch.translate(path))))

    def crash_after(self, count: int, *, with_effect: bool | None = None) -> None:
        """Lose power in the `count`th change from now (1 is the next), with its effect, without, or drawn."""
        self._crash_at = self.operations + count
        self._crash_with_effect = self._random.integer(0, 1) == 1 if with_effect is None else with_effect

    def clear_faults(self) -> None:
        """Remove all planned faults."""
        self._faults.clear()
        self._delays.clear()
        self._crash_at = None
        self.read_only = False

    def begin(self, kind: Kind, path: str, length: int = 0) -> Fault | None:
        """Number the operation; returns its fault, if any, for the caller to raise after a part of it."""
        if self._delays:
            self._delay(kind, path)
        if self.on_sync is not None and kind in SYNCS:
            self.on_sync(kind, path)
        if kind not in LOOKING:
            self.operations += 1
            self.journal.append(Operation(self.operations, kind, path, length))
            if self.operations == self._crash_at and not self._crash_with_effect:
                self._crash()
            if self.read_only:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        for fault in self._faults:
            if fault.meets(kind, path):
                return fault
        return None

    def done(self) -> None:
        """The change took effect."""
        # An operation that failed is not done: then power is lost in the next one.
        if self._crash_at is not None and self.operations >= self._crash_at:
            self._crash()
        if self.on_operation is not None:
            self.on_operation(self.journal[-1])

    def _crash(self) -> None:
        self._crash_at = None
        self.power_loss()
        raise PowerLost(f"power lost in operation {self.operations}: {self.journal[-1]}")

    def _delay(self, kind: Kind, path: str) -> None:
        if self.on_delay is not None:
            for delay in self._delays:
                if kind in delay.kinds and delay.path.match(path):
                    self.on_delay(delay.delay_ms)


def _refuse_too_many(planned: int) -> None:
    if planned >= FAULTS_MAX:
        raise ValueError(f"{FAULTS_MAX} are planned already: call clear_faults() first")
