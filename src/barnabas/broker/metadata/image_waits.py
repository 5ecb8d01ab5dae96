"""Responses that wait until this broker's own metadata shows what they report.

The controller responds when its decision is committed.  A broker that forwarded the request fetches the
records a moment later: a client that asks it about its new topic at once would be told that there is none.
In ZooKeeper mode Apache Kafka waits in the same way (DelayedCreatePartitions); in KRaft mode it does not.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.base.units import NS_PER_MS
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

# A broker that fetches shows new metadata after milliseconds.  One that does not is cut off from the
# controllers, and what the controller has reported is true nevertheless.
MAX_WAIT_MS = 1_000
# Responses that wait.  Beyond that they are sent at once.
MAX_WAITING = 1_000


class ImageWaits:
    """A publisher: the last but one, so that what it reports can be used."""

    name = "responses"

    def __init__(self, clock: Clock, timers: TimerService) -> None:
        self._clock = clock
        self._timers = timers
        self._waiting: dict[Promise[None], Callable[[Image], bool]] = {}

    def until(self, is_shown: Callable[[Image], bool], image: Image) -> Promise[None]:
        """Completes when the image shows it, and after a second at the latest."""
        shown: Promise[None] = Promise()
        if is_shown(image) or len(self._waiting) >= MAX_WAITING:
            shown.set(None)
            return shown
        self._waiting[shown] = is_shown
        deadline_ns = self._clock.monotonic_ns() + MAX_WAIT_MS * NS_PER_MS
        self._timers.set((self, id(shown)), deadline_ns, lambda: self._complete(shown))
        return shown

    def publish(self, delta: Delta, image: Image) -> None:
        for shown in [shown for shown, is_shown in self._waiting.items() if is_shown(image)]:
            self._complete(shown)

    def _complete(self, shown: Promise[None]) -> None:
        if self._waiting.pop(shown, None) is not None:
            self._timers.cancel((self, id(shown)))
            shown.set(None)
