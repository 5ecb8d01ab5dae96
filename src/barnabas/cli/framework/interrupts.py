"""Ctrl+C and SIGTERM in tools that run until they are stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from barnabas.cli.framework.exits import Exit

_CODES = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
Handler = Callable[[int, FrameType | None], object]


class Shutdown:
    """Whether a signal arrived, and the exit code for it."""

    def __init__(self) -> None:
        self.code: Exit | None = None

    @property
    def is_requested(self) -> bool:
        return self.code is not None


@contextmanager
def shutting_down_on_signal(wake: Callable[[], object]) -> Iterator[Shutdown]:
    """The first signal only calls `wake`, so that no record is left half printed; the second one stops the
    tool at once."""
    shutdown = Shutdown()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if shutdown.is_requested:
            stop_now(number, frame)
        shutdown.code = _CODES[signal.Signals(number)]
        wake()

    with _handling(on_signal):
        yield shutdown


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """A signal stops the tool wherever it waits; `finally` blocks still run."""
    with _handling(stop_now):
        yield


def stop_now(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(int(_CODES[signal.Signals(number)]))


@contextmanager
def _handling(handler: Handler) -> Iterator[None]:
    # Ignored signals stay ignored: a script's background job does not receive signals of the terminal.
    signals = [number for number in _CODES if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
