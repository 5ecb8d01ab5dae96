"""Rates over a window of samples, and throttle times, as computed by Apache Kafka (KIP-13).

A rate is the sum of the samples divided by the time that they cover.  That time is at least all samples but
one, so that a new client is not throttled for its first burst.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """`quota.window.num` samples of `quota.window.size.seconds` each."""

    samples: int
    sample_ms: int

    @property
    def all_ms(self) -> int:
        return self.samples * self.sample_ms

    @property
    def full_seconds(self) -> float:
        """The seconds of quota that an idle client may use at once."""
        return (self.samples - 1) * self.sample_ms / 1000


class Rate:
    """A rate per second."""

    __slots__ = ("_samples", "_total", "_window", "last_ms")

    def __init__(self, window: Window) -> None:
        self._window = window
        # Start and amount of each sample, oldest first.
        self._samples: deque[list[float]] = deque()
        self._total = 0.0
        self.last_ms = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Records an amount; a negative amount undoes an earlier record."""
        self.last_ms = now_ms
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window.sample_ms:
            samples.append([now_ms, 0.0])
        samples[-1][1] += amount
        self._total += amount
        self._purge(now_ms)

    def measure(self, now_ms: int) -> float:
        self._purge(now_ms)
        return self._total * 1000 / self.covered_ms(now_ms)

    def covered_ms(self, now_ms: int) -> float:
        """Returns the time that the samples cover."""
        window = self._window
        elapsed = now_ms - self._samples[0][0] if self._samples else 0
        missing = window.samples - 1 - elapsed // window.sample_ms
        return max(elapsed + max(missing, 0) * window.sample_ms, 1)

    def _purge(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0][0] >= self._window.all_ms:
            self._total -= samples.popleft()[1]


def throttle_ms(rate: Rate, bound: float, now_ms: int, max_ms: int | None = None) -> int:
    """Returns the time until the rate falls to the bound; 0 if it is not above it."""
    value = rate.measure(now_ms)
    if value <= bound:
        return 0
    delay_ms = round((value - bound) / bound * rate.covered_ms(now_ms))
    return delay_ms if max_ms is None else min(delay_ms, max_ms)
