"""The periodic tasks of the active controller: no-op records, fencing, unclean elections, leader balancing.

Contains the schedule; decisions belong in controller/.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.base.errors import KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.config import Settings
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH
from barnabas.controller.replication.elections import MAX_CHANGES_AT_ONCE, MAX_ELECTIONS_PER_ROUND
from barnabas.protocol.records.metadata import NoOpRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# An eighth of the session timeout, so that a dead broker is fenced soon after its session expires.
CHECKS_PER_SESSION = 8
# How soon a task continues that had more to do than fits in one run, as in Apache Kafka.
NEXT_BATCH_MS = 10
# Stale brokers that are fenced in one run; each takes one record per partition in whose ISR it was.
MAX_FENCED_AT_ONCE = 100


# The task that fences brokers.
FENCE = "fence"


class _Task(NamedTuple):
    name: str
    interval_ms: int
    decide: Callable[[], Sequence[Message]]
    # Maximum decisions in one run; each sees the records of the previous one.
    max_decisions: int = 1
    # A run with this many records was cut short: the next one follows soon.
    records_per_run: int | None = None


class PeriodicTasks:
    """Runs the tasks between `start` and `stop`."""

    def __init__(
        self, driver: ControllerDriver, settings: Settings, clock: Clock, timers: TimerService
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._timers = timers
        controller = driver.controller
        session_ms = settings["broker.session.timeout.ms"]
        self._tasks = [
            _Task("no-op", settings["metadata.max.idle.interval.ms"], lambda: [NoOpRecord()]),
            _Task(
                FENCE,
                max(1, session_ms // CHECKS_PER_SESSION),
                self._fence_stale,
                MAX_FENCED_AT_ONCE,
                records_per_run=MAX_CHANGES_AT_ONCE,
            ),
            _Task(
                "shutdown",
                max(1, session_ms // CHECKS_PER_SESSION),
                controller.continue_shutdowns,
                records_per_run=1,
            ),
            _Task(
                "unclean",
                settings["unclean.leader.election.interval.ms"],
                controller.elect_unclean_leaders,
                records_per_run=MAX_ELECTIONS_PER_ROUND,
            ),
        ]
        if settings["auto.leader.rebalance.enable"]:
            interval_ms = settings["leader.imbalance.check.interval.seconds"] * 1_000
            self._tasks.append(
                _Task(
                    "balance",
                    interval_ms,
                    controller.balance_leaders,
                    records_per_run=MAX_ELECTIONS_PER_ROUND,
                )
            )

        if controller.state.token_index is not None:
            self._tasks.append(
                _Task(
                    "tokens",
                    settings["delegation.token.expiry.check.interval.ms"],
                    self._remove_over_tokens,
                    records_per_run=MAX_RECORDS_PER_BATCH,
                )
            )

    def start(self) -> None:
        for task in self._tasks:
            self._schedule(task, task.interval_ms)

    def stop(self) -> None:
        for task in self._tasks:
            self._timers.cancel((self, task.name))

    def expire(self, broker_id: int) -> None:
        """The session of a broker has expired: it is fenced without waiting for the next check."""
        self._driver.controller.state.heartbeats.expire(broker_id, self._clock.monotonic_ns())
        for task in self._tasks:
            if task.name == FENCE:
                self._schedule(task, 0)

    def _schedule(self, task: _Task, delay_ms: int) -> None:
        """Schedules the next run; an interval of 0 means never."""
        if task.interval_ms > 0:
            deadline_ns = self._clock.monotonic_ns() + delay_ms * NS_PER_MS
            self._timers.set((self, task.name), deadline_ns, partial(self._run, task))

    def _run(self, task: _Task) -> None:
        self._schedule(task, task.interval_ms)
        try:
            for _ in range(task.max_decisions):
                records = self._driver.append(task.decide, atomic=False)
                if not records:
                    return
                if task.records_per_run is not None and records >= task.records_per_run:
                    self._schedule(task, NEXT_BATCH_MS)
                    return
        except KafkaError as error:
            logger.warning("the controller's task %r is postponed to its next run: %s", task.name, error)

    def _remove_over_tokens(self) -> list[Message]:
        return self._driver.controller.remove_over_tokens(self._clock.wall_ms())

    def _fence_stale(self) -> list[Message]:
        return self._driver.controller.fence_stale(self._clock.monotonic_ns())
