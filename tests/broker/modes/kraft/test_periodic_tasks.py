"""The periodic tasks of the active controller, with a clock that the test advances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft.periodic_tasks import NEXT_BATCH_MS, PeriodicTasks
from barnabas.controller.replication.elections import MAX_ELECTIONS_PER_ROUND
from barnabas.protocol.records.metadata import NoOpRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.timers import Timers
from barnabas.testing.simulation.metadata_node import configuration


class Driven:
    """A driver and its controller: each call of a task takes the next number of records."""

    def __init__(self, **options: object) -> None:
        self.now_ns = 0
        self.timers = Timers()
        self.controller = self
        self.state = SimpleNamespace(token_index=None)
        self.imbalanced = 0
        self.balanced: list[tuple[int, int]] = []
        self.refusal: KafkaError | None = None
        self.tasks = PeriodicTasks(self, configuration(options).settings, self, self.timers)  # type: ignore[arg-type]
        self.tasks.start()

    def monotonic_ns(self) -> int:
        return self.now_ns

    def append(self, decide: Callable[[], Sequence[Message]], *, atomic: bool) -> int:
        assert not atomic
        if self.refusal is not None:
            raise self.refusal
        return len(decide())

    def balance_leaders(self) -> list[Message]:
        elected = min(self.imbalanced, MAX_ELECTIONS_PER_ROUND)
        self.imbalanced -= elected
        self.balanced.append((self.now_ns // NS_PER_MS, elected))
        return [NoOpRecord()] * elected

    def elect_unclean_leaders(self) -> list[Message]:
        return []

    def fence_stale(self, now_ns: int) -> list[Message]:
        return []

    def continue_shutdowns(self) -> list[Message]:
        return []

    def run_ms(self, ms: int) -> None:
        for _ in range(ms):
            self.now_ns += NS_PER_MS
            self.timers.fire_due(self.now_ns)


def options(**more: object) -> dict[str, Any]:
    return {"leader.imbalance.check.interval.seconds": 1, "metadata.max.idle.interval.ms": 0, **more}


def test_leaders_are_balanced_in_batches_that_follow_each_other() -> None:
    """M-D4: with 2,500 leaders to move, the second batch of 1,000 used to wait for the next interval."""
    driven = Driven(**options())
    driven.imbalanced = 2 * MAX_ELECTIONS_PER_ROUND + 500
    driven.run_ms(1_500)
    assert driven.balanced == [
        (1_000, MAX_ELECTIONS_PER_ROUND),
        (1_000 + NEXT_BATCH_MS, MAX_ELECTIONS_PER_ROUND),
        (1_000 + 2 * NEXT_BATCH_MS, 500),
    ]
    driven.run_ms(1_000)
    assert driven.balanced[-1] == (2_000 + 2 * NEXT_BATCH_MS, 0), "then one interval after the last run"


def test_leaders_are_not_balanced_if_that_is_switched_off() -> None:
    # M-D4
    driven = Driven(**options(**{"auto.leader.rebalance.enable": "false"}))
    driven.imbalanced = 1
    driven.run_ms(2_500)
    assert driven.balanced == []


def test_a_task_that_cannot_append_now_runs_at_its_next_interval() -> None:
    driven = Driven(**options())
    driven.refusal = KafkaError(ErrorCode.NOT_CONTROLLER)
    driven.run_ms(1_500)
    driven.refusal = None
    driven.imbalanced = 3
    driven.run_ms(1_000)
    assert driven.balanced == [(2_000, 3)]
    driven.tasks.stop()
    driven.run_ms(2_000)
    assert len(driven.balanced) == 1
