"""The simulated twin of the clock: it can run fast or slow, and its wall time can jump."""

from __future__ import annotations

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.agenda import Agenda

# Midnight of some day in 2023; any time will do, if it is the same in every run.
START_WALL_MS = 1_700_000_000_000
# Drift is given in parts per million.
_PPM = 1_000_000


class SimulatedClock:
    """One node's clock.  Drift is in millionths: a clock of +200 gains 0.2 ms per second."""

    __slots__ = ("_agenda", "_jumped_ms", "_local_start_ns", "_true_start_ns", "drift_ppm")

    def __init__(self, agenda: Agenda, *, drift_ppm: int = 0) -> None:
        self.drift_ppm = drift_ppm
        self._agenda = agenda
        self._true_start_ns = self._local_start_ns = agenda.now_ns
        self._jumped_ms = 0

    def monotonic_ns(self) -> int:
        elapsed_ns = self._agenda.now_ns - self._true_start_ns
        return self._local_start_ns + elapsed_ns + elapsed_ns * self.drift_ppm // _PPM

    def wall_ms(self) -> int:
        return START_WALL_MS + self.monotonic_ns() // NS_PER_MS + self._jumped_ms

    def true_ns(self, monotonic_ns: int) -> int:
        """The first true time at which this clock shows `monotonic_ns`, if its drift does not change."""
        ahead_ns = monotonic_ns - self._local_start_ns
        return self._true_start_ns - (-ahead_ns * _PPM // (_PPM + self.drift_ppm))

    def jump(self, ms: int) -> None:
        """Set the wall clock; monotonic time is not affected."""
        self._jumped_ms += ms

    def set_drift(self, drift_ppm: int) -> None:
        """Run at another speed from now on."""
        if drift_ppm <= -_PPM:
            raise ValueError(
                f"a drift of {drift_ppm} millionths would stop the clock; it must be more than -1000000"
            )
        self._local_start_ns = self.monotonic_ns()
        self._true_start_ns = self._agenda.now_ns
        self.drift_ppm = drift_ppm
