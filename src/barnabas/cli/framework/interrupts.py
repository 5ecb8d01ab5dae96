"""Ctrl+C and SIGTERM in tools that run until somebody ends them.

What lives here: from a signal to a clean end.  What may not: what the end of a tool is made of.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from barnabas.cli.framework.exits import Exit

_CODES = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
Handler = Callable[[int, FrameType | None], object]


class Ending:
    """Whether a tool was told to end, and the code to end with."""

    def __init__(self) -> None:
        self.code: Exit | None = None

    @property
    def is_wanted(self) -> bool:
        return self.code is not None


@contextmanager
def ending_by(wake: Callable[[], object]) -> Iterator[Ending]:
    """The first signal is noted and `wake` is called, so that a record is never left half printed; the next
    one ends the tool where it stands."""
    ending = Ending()

    def heard(number: int, frame: FrameType | None) -> None:
        if ending.is_wanted:
            stop_now(number, frame)
        ending.code = _CODES[signal.Signals(number)]
        wake()

    with _handling(heard):
        yield ending


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """A signal ends the tool wherever it waits; what `finally` holds is still done."""
    with _handling(stop_now):
        yield


def stop_now(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(int(_CODES[signal.Signals(number)]))


@contextmanager
def _handling(handler: Handler) -> Iterator[None]:
    # What is ignored stays ignored: a job in the background of a script does not hear its terminal.
    heard = [number for number in _CODES if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
