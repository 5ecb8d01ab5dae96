"""State transitions of one transactional id."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.txn.transaction import (
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_TIMEOUT_MS,
    STATES_BY_NAME,
    State,
    Transaction,
    new_transaction,
)
from barnabas.storage.log.names import TopicPartition

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 3)


def begun(epoch: int = 0) -> Transaction:
    fresh = new_transaction("shop", 7, 60_000, 100)
    return Transaction(
        "shop", 7, epoch, 60_000, State.EMPTY, frozenset(), -1, 100, last_producer_epoch=fresh.producer_epoch
    )


def ongoing(epoch: int = 0, client_version: int = 0) -> Transaction:
    return begun(epoch).add(frozenset({ORDERS}), client_version, 200)


def test_state_names_match_apache_kafka() -> None:
    assert [state.display_name for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert STATES_BY_NAME["PrepareAbort"] is State.PREPARE_ABORT


def test_a_new_producer_starts_with_epoch_0() -> None:
    first = new_transaction("shop", 7, 60_000, 100).increment_epoch(30_000, None, 101)
    assert (first.producer_id, first.producer_epoch, first.last_producer_epoch) == (7, 0, -1)
    assert (first.state, first.timeout_ms, first.updated_ms, first.start_ms) == (State.EMPTY, 30_000, 101, -1)


def test_each_producer_gets_the_next_epoch() -> None:
    second = begun().increment_epoch(60_000, None, 300)
    assert (second.producer_epoch, second.last_producer_epoch) == (1, -1)


def test_a_producer_that_sends_its_epoch_continues_and_may_retry() -> None:
    second = begun().increment_epoch(60_000, 0, 300)
    assert (second.producer_epoch, second.last_producer_epoch) == (1, 0)
    retried = second.increment_epoch(60_000, 0, 400)  # the response was lost
    assert (retried.producer_epoch, retried.last_producer_epoch) == (1, 0)
    with pytest.raises(KafkaError) as fenced:
        second.increment_epoch(60_000, None, 400).increment_epoch(60_000, 0, 500)
    assert fenced.value.code is ErrorCode.PRODUCER_FENCED


def test_exhausted_epochs_need_a_new_producer_id() -> None:
    worn = begun(LAST_CLIENT_EPOCH)
    assert worn.is_exhausted
    with pytest.raises(KafkaError) as refused:
        worn.increment_epoch(60_000, 5, 300)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    rotated = worn.rotate(8, 60_000, 300, keep_epoch=True)
    assert (rotated.producer_id, rotated.producer_epoch) == (8, 0)
    assert (rotated.previous_producer_id, rotated.last_producer_epoch) == (7, LAST_CLIENT_EPOCH)
    assert worn.rotate(8, 60_000, 300, keep_epoch=False).last_producer_epoch == -1


def test_partitions_start_a_transaction_and_are_added_to_it() -> None:
    first = ongoing()
    more = first.add(frozenset({PAYMENTS}), 0, 250)
    assert (first.state, first.start_ms) == (State.ONGOING, 200)
    assert (more.partitions, more.start_ms, more.updated_ms) == ({ORDERS, PAYMENTS}, 200, 250)


def test_without_epoch_bumps_the_epoch_stays() -> None:
    prepared = ongoing(4).prepare(commit=True, client_version=0, now_ms=300)
    assert (prepared.state, prepared.producer_epoch) == (State.PREPARE_COMMIT, 4)
    complete = prepared.complete(400)
    assert (complete.state, complete.producer_epoch) == (State.COMPLETE_COMMIT, 4)
    assert (complete.partitions, complete.start_ms, complete.updated_ms) == (frozenset(), 200, 400)


@pytest.mark.trap
def test_each_transaction_has_its_own_epoch() -> None:
    """Trap 22: transactions under delay: epoch bump per transaction (KIP-890)."""
    prepared = ongoing(4, 2).prepare(commit=False, client_version=2, now_ms=300)
    assert (prepared.producer_epoch, prepared.last_producer_epoch) == (5, 4)
    complete = prepared.complete(400)
    assert (complete.state, complete.producer_epoch) == (State.COMPLETE_ABORT, 5)
    assert complete.last_producer_epoch == 4


def test_the_last_epoch_ends_with_the_highest_and_continues_with_a_new_producer_id() -> None:
    prepared = ongoing(LAST_CLIENT_EPOCH, 2).prepare(
        commit=True, client_version=2, next_producer_id=9, now_ms=300
    )
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, MAX_EPOCH, 9)
    complete = prepared.complete(400)
    assert (complete.producer_id, complete.producer_epoch) == (9, 0)
    assert (complete.previous_producer_id, complete.next_producer_id) == (7, -1)
    assert complete.last_producer_epoch == LAST_CLIENT_EPOCH


def test_the_highest_epoch_cannot_be_fenced() -> None:
    with pytest.raises(KafkaError):
        ongoing(MAX_EPOCH).fence()
    assert ongoing(LAST_CLIENT_EPOCH).fence().producer_epoch == MAX_EPOCH


def test_the_timeout_starts_with_the_transaction_and_not_with_its_last_partition() -> None:
    longer = ongoing().add(frozenset({PAYMENTS}), 0, 50_000)
    assert (longer.start_ms, longer.updated_ms) == (200, 50_000)
    assert not longer.is_timed_out(60_200)
    assert longer.is_timed_out(60_201)


def test_only_open_transactions_time_out() -> None:
    assert not ongoing().is_timed_out(60_200)
    assert ongoing().is_timed_out(60_201)
    assert not begun().is_timed_out(10**9)
    assert not ongoing().prepare(commit=True, client_version=0, now_ms=300).is_timed_out(10**9)
    endless = begun().increment_epoch(NO_TIMEOUT_MS, None, 100).add(frozenset({ORDERS}), 0, 200)
    assert not endless.is_timed_out(2**40)


def test_only_ids_without_an_open_transaction_expire() -> None:
    assert begun().is_expired(1_100, 1_000)
    assert not begun().is_expired(1_099, 1_000)
    assert not ongoing().is_expired(10**9, 1_000)
    assert not ongoing().prepare(commit=True, client_version=0, now_ms=300).is_expired(10**9, 1_000)
