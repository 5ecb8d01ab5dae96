"""kill -9 with groups and open transactions live: no commit is lost, no group stands still, nothing is torn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.killed.killed_groups import rounds

ROUNDS = 2


@pytest.mark.trap
def test_groups_and_transactions_go_on_after_kills(tmp_path: Path) -> None:
    """Trap 11: End offset and lag with control records: lag must reach 0."""
    # M-E2
    rounds(tmp_path, ROUNDS).check()
