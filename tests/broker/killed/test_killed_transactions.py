"""kill -9 in the middle of transactions: none is torn, none that was committed is lost, none stays open."""

from __future__ import annotations

from pathlib import Path

from tests.broker.killed.killed_transactions import rounds

ROUNDS = 2
SEED = 40


def test_no_transaction_is_torn(tmp_path: Path) -> None:
    # M-F
    rounds(tmp_path, ROUNDS, SEED).check()
