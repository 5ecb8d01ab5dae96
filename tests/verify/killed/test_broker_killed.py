"""Twenty rounds of kill -9 under an idempotent load that waits for all replicas; `make test` has three."""

from __future__ import annotations

from pathlib import Path

from tests.broker.killed.killed_rounds import rounds

ROUNDS = 20
SEED = 4
LEAST_ACKNOWLEDGED = 20_000


def test_nothing_acknowledged_is_lost_and_nothing_twice(tmp_path: Path) -> None:
    # M-E2
    outcome = rounds(tmp_path, ROUNDS, SEED)
    outcome.check()
    assert len(outcome.acknowledged) >= LEAST_ACKNOWLEDGED
