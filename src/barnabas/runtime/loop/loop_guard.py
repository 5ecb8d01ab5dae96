"""A guard over a loop: nothing on it waits for the device, and no tick computes for long.

For tests.  The simulated world has the same rule for syncs (see `world.Node`).

Wall time proves little on a machine that others use, so a tick is measured by the processor time of its own
thread, without that of the garbage collector, whose heap holds every other test too.  Syncs are not timed at
all: one on the loop is a fault however quick it was.
"""

from __future__ import annotations

import gc
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any

from barnabas.runtime.clock import thread_cpu_ns
from barnabas.runtime.simulated.disk_faults import SYNCS, Kind

LIMIT_NS = 10_000_000
"""The limit of a tick on an otherwise idle machine."""

SLOW_MACHINE_FACTOR = 20
"""How much slower a machine may be that runs other tests too, without the compiled engine; first uses
(imports of handlers, codecs compiled on demand) are included."""

FRAMES_SHOWN = 12


class LoopGuard:
    """Armed while a loop serves; `faults` lists the violations."""

    def __init__(self, is_on_loop: Callable[[], bool] | None = None, *, raises: bool = False) -> None:
        thread = threading.current_thread()
        self._is_on_loop = is_on_loop or (lambda: threading.current_thread() is thread)
        self.is_armed = False
        # Whether a sync on the loop raises at once; otherwise the owner checks the faults at the end.
        self._raises = raises
        self.faults: list[str] = []
        # Syncs on other threads: a guard that saw none proves nothing.
        self.syncs_elsewhere = 0
        self._collection_began_ns: int | None = None
        self._collected_ns = 0
        watch_collector(self)

    def watch(self, kind: Kind, path: str) -> None:
        """Called for every operation of a disk (see `watched_disk`), on its thread."""
        if kind not in SYNCS:
            return
        if not self._is_on_loop():
            self.syncs_elsewhere += 1
        elif self.is_armed:
            frames = "".join(traceback.format_stack(limit=FRAMES_SHOWN)[:-1])
            self.faults.append(f"{kind} of {path} on the loop:\n{frames}")
            if self._raises:
                self.check()

    def ticked(self, cpu_ns: int) -> None:
        """Called with the processor time of a tick."""
        own_ns = cpu_ns - self._collected_ns
        self._collected_ns = 0
        if self.is_armed and own_ns > LIMIT_NS * SLOW_MACHINE_FACTOR:
            self.faults.append(f"a tick took {own_ns / 1e6:.1f} ms of processor time")

    def collector(self, phase: str) -> None:
        """Called when the garbage collector starts and stops, on the thread that it interrupts."""
        if not self._is_on_loop():
            return
        if phase == "start":
            self._collection_began_ns = thread_cpu_ns()
        elif self._collection_began_ns is not None:
            self._collected_ns += thread_cpu_ns() - self._collection_began_ns
            self._collection_began_ns = None

    def check(self) -> None:
        """Raises AssertionError if there are faults."""
        if self.faults:
            raise AssertionError("\n".join(self.faults))


def watch_collector(guard: LoopGuard) -> None:
    """Report collections to the guard for as long as somebody else refers to it."""
    reference = weakref.ref(guard)

    def report(phase: str, _info: dict[str, Any]) -> None:
        listener = reference()
        if listener is not None:
            listener.collector(phase)

    gc.callbacks.append(report)
    weakref.finalize(guard, gc.callbacks.remove, report).atexit = False
