"""Twenty rounds of kill -9 with members and open transactions live; `make test` has two."""

from __future__ import annotations

from pathlib import Path

from tests.broker.killed.killed_groups import rounds

ROUNDS = 20
LEAST_COMMITS = 500
LEAST_TRANSACTIONS = 100


def test_no_commit_is_lost_no_group_stands_still_and_no_transaction_is_torn(tmp_path: Path) -> None:
    # M-E2
    outcome = rounds(tmp_path, ROUNDS)
    outcome.check()
    assert outcome.commits >= LEAST_COMMITS
    assert outcome.transactions >= LEAST_TRANSACTIONS
