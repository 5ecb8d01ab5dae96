"""What the cleaner remembers of transactions and producers."""

from __future__ import annotations

from barnabas.batch.control import ControlType
from barnabas.storage.cleaner.transactions import CleanedTransactions, CleanerCallbacks
from barnabas.storage.segment.transaction_index import AbortedTransaction

ABORTED = AbortedTransaction(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=10)


def test_data_of_an_aborted_transaction_does_not_count() -> None:
    kept: list[AbortedTransaction] = []
    transactions = CleanedTransactions(kept.append)
    transactions.expect_aborted([ABORTED])
    assert not transactions.on_data(7, 9), "before its first offset the producer had another transaction"
    assert not transactions.on_marker(7, 9, ControlType.COMMIT)
    assert transactions.on_data(7, 11)
    assert not transactions.on_data(8, 12)
    assert not transactions.on_marker(7, 20, ControlType.ABORT), "its data was there: the marker stays"
    assert kept == [ABORTED]
    assert not transactions.on_data(7, 21)


def test_a_marker_is_removed_once_its_data_is_removed() -> None:
    kept: list[AbortedTransaction] = []
    transactions = CleanedTransactions(kept.append)
    transactions.expect_aborted([ABORTED])
    assert transactions.on_marker(7, 20, ControlType.ABORT)
    assert transactions.on_marker(8, 21, ControlType.COMMIT)
    assert not transactions.on_data(8, 22)
    assert not transactions.on_marker(8, 23, ControlType.COMMIT)
    assert transactions.on_marker(8, 24, ControlType.COMMIT)
    assert kept == []


def test_other_control_records_stay_and_empty_control_batches_go() -> None:
    transactions = CleanedTransactions()
    assert not transactions.on_marker(-1, 1, ControlType.LEADER_CHANGE)
    assert not transactions.on_marker(-1, 2, ControlType.KRAFT_VOTERS)
    assert transactions.on_marker(7, 3, -1)


def test_two_aborted_transactions_of_one_producer_follow_each_other() -> None:
    later = AbortedTransaction(7, 30, 40, 30)
    transactions = CleanedTransactions()
    transactions.expect_aborted([later])
    transactions.expect_aborted([ABORTED])
    assert transactions.on_data(7, 12)
    assert not transactions.on_marker(7, 20, ControlType.ABORT)
    assert not transactions.on_data(7, 25)
    assert not transactions.on_marker(7, 26, ControlType.COMMIT)
    assert transactions.on_data(7, 33)


def test_the_batch_that_tells_of_a_producer_is_known() -> None:
    """Trap 14: the sequence numbers survive compaction."""
    callbacks = CleanerCallbacks(CleanedTransactions(), {1: (50, 3), 2: (None, 4)})
    assert callbacks.ends_producer(1, 3, 50, False)
    assert not callbacks.ends_producer(1, 3, 49, False)
    assert callbacks.ends_producer(2, 4, 60, True)
    assert not callbacks.ends_producer(2, 3, 59, True)
    assert not callbacks.ends_producer(2, 4, 60, False)
    assert not callbacks.ends_producer(3, 0, 70, False)
