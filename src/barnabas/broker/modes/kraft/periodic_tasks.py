"""What the active controller does by the clock: records that only move the log on, fencing, balancing.

What lives here: when.  What may not: what is decided (controller/), and how it reaches the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.base.errors import KafkaError
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.config import Settings
from barnabas.protocol.records.metadata import NoOpRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# A session's eighth, so that a broker that is gone is fenced soon after its session.
CHECKS_PER_SESSION = 8
_NS_PER_MS = 1_000_000


# Stale brokers that are fenced in one turn; each takes as many records as partitions it was in sync for.
MAX_FENCED_AT_ONCE = 100


class _Job(NamedTuple):
    name: str
    interval_ms: int
    decide: Callable[[], Sequence[Message]]
    # How often it is asked in one turn, each time with the last answer applied, until it has none.
    most_decisions: int = 1


class PeriodicTasks:
    """Runs from `start` to `stop`."""

    def __init__(
        self, driver: ControllerDriver, settings: Settings, clock: Clock, timers: TimerService
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._timers = timers
        controller = driver.controller
        session_ms = settings["broker.session.timeout.ms"]
        self._jobs = [
            _Job("no-op", settings["metadata.max.idle.interval.ms"], lambda: [NoOpRecord()]),
            _Job("fence", max(1, session_ms // CHECKS_PER_SESSION), self._fence_stale, MAX_FENCED_AT_ONCE),
            _Job(
                "unclean", settings["unclean.leader.election.interval.ms"], controller.elect_unclean_leaders
            ),
        ]
        if settings["auto.leader.rebalance.enable"]:
            interval_ms = settings["leader.imbalance.check.interval.seconds"] * 1_000
            self._jobs.append(_Job("balance", interval_ms, controller.balance_leaders))

    def start(self) -> None:
        for job in self._jobs:
            self._schedule(job)

    def stop(self) -> None:
        for job in self._jobs:
            self._timers.cancel((self, job.name))

    def _schedule(self, job: _Job) -> None:
        """An interval of 0 means never."""
        if job.interval_ms > 0:
            deadline_ns = self._clock.monotonic_ns() + job.interval_ms * _NS_PER_MS
            self._timers.set((self, job.name), deadline_ns, partial(self._run, job))

    def _run(self, job: _Job) -> None:
        self._schedule(job)
        try:
            for _ in range(job.most_decisions):
                if not self._driver.append(job.decide, atomic=False):
                    return
        except KafkaError as error:
            logger.warning("the controller's job %r waits for its next turn: %s", job.name, error)

    def _fence_stale(self) -> list[Message]:
        return self._driver.controller.fence_stale(self._clock.monotonic_ns())
