"""Virtual time: the queue of events of a simulation, the true time, and the trace."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable

from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.random import SeededRandom

Action = Callable[[], None]

# Events at the same time are run in seeded order: each is delayed by less than this.
JITTER_NS = 1_000
# Trace lines that are kept for the report of a failing seed.
TRACE_TAIL_LINES = 60


class Trace:
    """The trace, line by line: a running hash of all lines, and the last of them."""

    __slots__ = ("_hash", "_tail", "count")

    def __init__(self, *, keep_all: bool = False) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[str] = deque(maxlen=None if keep_all else TRACE_TAIL_LINES)
        self.count = 0

    def note(self, line: str) -> None:
        """Add a line.  It must be the same in every process."""
        if " at 0x" in line:
            raise ValueError(f"a memory address in the trace differs from run to run: {line}")
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self._tail.append(line)
        self.count += 1

    @property
    def digest(self) -> str:
        """Equal for equal traces."""
        return self._hash.copy().hexdigest()

    @property
    def lines(self) -> list[str]:
        """The last lines, or all of them if all are kept."""
        return list(self._tail)


class Agenda:
    """Runs actions at their time, one after another; no time passes during an action."""

    __slots__ = ("_next_key", "_random", "_timers", "events", "now_ns", "trace")

    def __init__(self, random: SeededRandom, trace: Trace) -> None:
        self.now_ns = 0
        self.events = 0
        self.trace = trace
        self._random = random
        self._timers = Timers()
        self._next_key = 0

    def __len__(self) -> int:
        return len(self._timers)

    def after(self, delay_ns: int, action: Action) -> None:
        """Run once, after this delay."""
        self._next_key += 1
        self.set(self._next_key, self.now_ns + delay_ns, action)

    def set(self, key: Hashable, time_ns: int, action: Action) -> None:
        """Run once at this time; replaces an earlier setting of the same key.  Integer keys are reserved."""
        due_ns = max(time_ns, self.now_ns) + int(self._random.fraction() * JITTER_NS)
        self._timers.set(key, due_ns, action)

    def cancel(self, key: Hashable) -> None:
        self._timers.cancel(key)

    @property
    def next_ns(self) -> int | None:
        """The time of the next event."""
        return self._timers.next_deadline_ns()

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        due = self._timers.pop()
        if due is None:
            return False
        self.now_ns = due[0]
        self.events += 1
        due[1]()
        return True

    def note(self, line: str) -> None:
        """Add a line to the trace, with the time."""
        self.trace.note(f"{self.now_ns} {line}")
