"""Progress of long operations; on stderr and only on a terminal, so that it never mixes with the data."""

from __future__ import annotations

import os
import stat
import sys
from types import TracebackType
from typing import Self, TextIO

from barnabas.runtime.clock import Clock, SystemClock

# Faster updates are not visible, and every update costs a write.
EVERY_NS = 100_000_000
WIDTH = 30
_ERASE = "\r\x1b[K"


class Progress:
    """A bar if the total is known, otherwise a count.

    with Progress("reading", total) as progress:
        progress.add(1)
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        unit: str = "records",
        stream: TextIO | None = None,
        is_shown: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = is_shown and self._stream.isatty() and not _is_piped()
        self._clock: Clock = SystemClock() if clock is None else clock
        self._next_ns = self._clock.monotonic_ns()
        self._start_ns = self._next_ns
        self.done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Before something else is printed; the next `add` shows the progress again."""
        if self._is_shown:
            self._stream.write(_ERASE)
            self._stream.flush()

    def add(self, count: int) -> None:
        self.done += count
        if self._is_shown and self._clock.monotonic_ns() >= self._next_ns:
            self._next_ns = self._clock.monotonic_ns() + EVERY_NS
            self._stream.write(_ERASE + self.line())
            self._stream.flush()

    def line(self) -> str:
        passed_s = (self._clock.monotonic_ns() - self._start_ns) / 1e9
        rate = f"{self.done / passed_s:,.0f} {self._unit}/s" if passed_s > 0 else ""
        if not self._total:
            return f"{self._label} {self.done:,} {self._unit}  {rate}".rstrip()
        share = min(1.0, self.done / self._total)
        filled = round(share * WIDTH)
        bar = "█" * filled + "░" * (WIDTH - filled)
        return f"{self._label} {bar} {share:4.0%}  {self.done:,} of {self._total:,}  {rate}".rstrip()


def _is_piped() -> bool:
    """Whether another program gets the output: its own may go to the same terminal (`| head`)."""
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False
