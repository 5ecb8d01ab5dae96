"""Virtual time: the queue of events of a simulation, the true time, and the trace."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush

from barnabas.runtime.random import SeededRandom

Action = Callable[[], None]

# Events at the same time are run in seeded order: each is delayed by less than this.
JITTER_NS = 1_000
# Trace lines that are kept for the report of a failing seed.
TRACE_TAIL_LINES = 60
# Trace lines that are hashed at a time.
TRACE_CHUNK_LINES = 500


class Trace:
    """The trace, line by line: a running hash of all lines, and the last of them."""

    __slots__ = ("_count", "_hash", "_lines", "_tail")

    def __init__(self, *, keep_all: bool = False) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[str] = deque(maxlen=None if keep_all else TRACE_TAIL_LINES)
        self._count = 0
        # Lines that are not hashed yet: many at once take less time.
        self._lines: list[str] = []

    def note(self, line: str) -> None:
        """Add a line.  It must be the same in every process."""
        self._lines.append(line)
        if len(self._lines) >= TRACE_CHUNK_LINES:
            self._hash_lines()

    def _hash_lines(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        text = "\n".join(lines)
        if " at 0x" in text:
            line = next(line for line in lines if " at 0x" in line)
            raise ValueError(f"a memory address in the trace differs from run to run: {line}")
        self._hash.update(f"{text}\n".encode())
        self._tail.extend(lines)
        self._count += len(lines)

    @property
    def count(self) -> int:
        return self._count + len(self._lines)

    @property
    def digest(self) -> str:
        """Equal for equal traces."""
        self._hash_lines()
        return self._hash.copy().hexdigest()

    @property
    def lines(self) -> list[str]:
        """The last lines, or all of them if all are kept."""
        self._hash_lines()
        return list(self._tail)


class Agenda:
    """Runs actions at their time, one after another; no time passes during an action.

    A heap like that of `runtime.loop.timers`, without its entries: most actions are run once and never
    cancelled.
    """

    __slots__ = ("_fraction", "_heap", "_keys", "_sequence", "events", "now_ns", "trace")

    def __init__(self, random: SeededRandom, trace: Trace) -> None:
        self.now_ns = 0
        self.events = 0
        self.trace = trace
        self._fraction = random.fraction
        # An item without its key's present number was replaced or cancelled.
        self._heap: list[tuple[int, int, Action, Hashable | None]] = []
        self._keys: dict[Hashable, int] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return sum(self._is_live(item) for item in self._heap)

    def after(self, delay_ns: int, action: Action) -> None:
        """Run once, after this delay."""
        self._sequence += 1
        due_ns = self.now_ns + (delay_ns if delay_ns > 0 else 0) + int(self._fraction() * JITTER_NS)
        heappush(self._heap, (due_ns, self._sequence, action, None))

    def set(self, key: Hashable, time_ns: int, action: Action) -> None:
        """Run once at this time; replaces an earlier setting of the same key, which is not None."""
        self._sequence += 1
        self._keys[key] = self._sequence
        due_ns = max(time_ns, self.now_ns) + int(self._fraction() * JITTER_NS)
        heappush(self._heap, (due_ns, self._sequence, action, key))

    def cancel(self, key: Hashable) -> None:
        self._keys.pop(key, None)

    def _is_live(self, item: tuple[int, int, Action, Hashable | None]) -> bool:
        return item[3] is None or self._keys.get(item[3]) == item[1]

    @property
    def next_ns(self) -> int | None:
        """The time of the next event."""
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        return self.run(None, 1) == 1

    def run(self, end_ns: int | None, most: int, is_over: Callable[[], bool] | None = None) -> int:
        """Run events up to this time, `most` of them, or until `is_over`, which is asked after every event.

        Returns their number.
        """
        heap, keys = self._heap, self._keys
        ran = 0
        while heap and ran < most:
            due_ns, sequence, action, key = heap[0]
            if key is not None and keys.get(key) != sequence:
                heappop(heap)
                continue
            if end_ns is not None and due_ns > end_ns:
                break
            heappop(heap)
            if key is not None:
                del keys[key]
            self.now_ns = due_ns
            self.events += 1
            ran += 1
            action()
            if is_over is not None and is_over():
                break
        return ran

    def note(self, line: str) -> None:
        """Add a line to the trace, with the time."""
        self.trace.note(f"{self.now_ns} {line}")
