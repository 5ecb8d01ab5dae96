"""The history of a run, recorded by the threads of the load."""

from __future__ import annotations

import threading
import time
from collections import Counter

from barnabas.testing.histories.events import Acknowledged, Event

# How many different messages of clients are kept.
MAX_MESSAGES = 1000


class Recorder:
    """Events in the order in which they were recorded, and when records were acknowledged."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.acknowledged = 0
        self.longest_gap_s = 0.0
        self.gap_began_s = 0.0
        self.started_s = time.monotonic()
        # What clients reported, for those who look for the cause of an anomaly.
        self.messages: Counter[str] = Counter()
        self._last_s: float | None = None
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
            if isinstance(event, Acknowledged):
                self.acknowledged += 1
                self._note_gap()

    def note(self, message: str) -> None:
        with self._lock:
            if message in self.messages or len(self.messages) < MAX_MESSAGES:
                self.messages[message] += 1

    def begin_gaps(self) -> None:
        """From now on, gaps without an acknowledged record count."""
        with self._lock:
            self._last_s = time.monotonic()

    def end_gaps(self) -> None:
        with self._lock:
            if self._last_s is not None:
                self._note_gap()
            self._last_s = None

    def _note_gap(self) -> None:
        if self._last_s is None:
            return
        now = time.monotonic()
        if now - self._last_s > self.longest_gap_s:
            self.longest_gap_s = now - self._last_s
            self.gap_began_s = self._last_s - self.started_s
        self._last_s = now
