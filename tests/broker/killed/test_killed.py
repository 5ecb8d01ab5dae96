"""kill -9 under load: nothing that was acknowledged is lost, nothing is there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.killed.killed_rounds import rounds

ROUNDS = 3
SEED = 20


@pytest.mark.trap
def test_nothing_acknowledged_is_lost_and_nothing_twice(tmp_path: Path) -> None:
    """Trap 14: producer sequence state survives restart, leader change and partition moves."""
    # M-E2
    rounds(tmp_path, ROUNDS, SEED).check()
