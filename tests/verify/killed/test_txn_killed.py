"""kill -9 in the middle of transactions, twenty times."""

from __future__ import annotations

from pathlib import Path

from tests.broker.killed.killed_transactions import rounds

ROUNDS = 20
SEED = 41


def test_no_transaction_is_torn_in_twenty_lives(tmp_path: Path) -> None:
    rounds(tmp_path, ROUNDS, SEED).check()
