"""EndTxn validation and retries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.txn.ending import EndRequest, NeedsProducerId, abort, end
from barnabas.coordinator.txn.transaction import LAST_CLIENT_EPOCH, State, Transaction
from barnabas.storage.log.names import TopicPartition

NOW_MS = 500
COMMIT, ABORT = True, False


def at(state: State, epoch: int = 4, client_version: int = 0) -> Transaction:
    partitions = frozenset({TopicPartition("orders", 0)}) if state is State.ONGOING else frozenset()
    return Transaction("shop", 7, epoch, 60_000, state, partitions, 100, 200, client_version)


def outcome(
    transaction: Transaction, commit: bool, client_version: int, *, pid: int = 7, epoch: int = 4
) -> str:
    """The outcome as one word."""
    try:
        ended = end(transaction, EndRequest(pid, epoch, commit, client_version), None, NOW_MS)
    except KafkaError as error:
        return error.code.name
    if isinstance(ended, NeedsProducerId):
        return "needs an id"
    return "nothing" if ended is None else ended.state.display_name


# State, then the outcome of a commit and an abort with the current epoch.
WITHOUT_BUMP = [
    (State.EMPTY, "INVALID_TXN_STATE", "INVALID_TXN_STATE"),
    (State.ONGOING, "PrepareCommit", "PrepareAbort"),
    (State.PREPARE_COMMIT, "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"),
    (State.PREPARE_ABORT, "INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS"),
    (State.COMPLETE_COMMIT, "nothing", "INVALID_TXN_STATE"),
    (State.COMPLETE_ABORT, "INVALID_TXN_STATE", "nothing"),
]
# The same with epoch bumps: with the current epoch, and with the previous one (a retry).
WITH_BUMP = [
    (State.EMPTY, "INVALID_TXN_STATE", "PrepareAbort", "PRODUCER_FENCED", "PRODUCER_FENCED"),
    (State.ONGOING, "PrepareCommit", "PrepareAbort", "PRODUCER_FENCED", "PRODUCER_FENCED"),
    (
        State.PREPARE_COMMIT,
        "PRODUCER_FENCED",
        "PRODUCER_FENCED",
        "CONCURRENT_TRANSACTIONS",
        "INVALID_TXN_STATE",
    ),
    (
        State.PREPARE_ABORT,
        "PRODUCER_FENCED",
        "PRODUCER_FENCED",
        "INVALID_TXN_STATE",
        "CONCURRENT_TRANSACTIONS",
    ),
    (State.COMPLETE_COMMIT, "INVALID_TXN_STATE", "PrepareAbort", "nothing", "INVALID_TXN_STATE"),
    (State.COMPLETE_ABORT, "INVALID_TXN_STATE", "PrepareAbort", "INVALID_TXN_STATE", "nothing"),
]


@pytest.mark.parametrize(("state", "commit", "aborted"), WITHOUT_BUMP)
def test_end_txn_without_epoch_bump(state: State, commit: str, aborted: str) -> None:
    assert outcome(at(state), COMMIT, 0) == commit
    assert outcome(at(state), ABORT, 0) == aborted
    assert outcome(at(state), COMMIT, 0, epoch=3) == "PRODUCER_FENCED"
    assert outcome(at(state), COMMIT, 0, epoch=5) == "PRODUCER_FENCED"
    assert outcome(at(state), COMMIT, 0, pid=8) == "INVALID_PRODUCER_ID_MAPPING"


@pytest.mark.trap
@pytest.mark.parametrize(("state", "commit", "aborted", "commit_again", "abort_again"), WITH_BUMP)
def test_end_txn_with_epoch_bump(
    state: State, commit: str, aborted: str, commit_again: str, abort_again: str
) -> None:
    """Trap 22: transactions under delay: an old EndTxn must not end the next transaction."""
    now = at(state, client_version=2)
    assert outcome(now, COMMIT, 2) == commit
    assert outcome(now, ABORT, 2) == aborted
    assert outcome(now, COMMIT, 2, epoch=3) == commit_again
    assert outcome(now, ABORT, 2, epoch=3) == abort_again
    assert outcome(now, COMMIT, 2, epoch=2) == "PRODUCER_FENCED"
    assert outcome(now, COMMIT, 2, epoch=5) == "PRODUCER_FENCED"
    assert outcome(now, COMMIT, 2, pid=8) == "INVALID_PRODUCER_ID_MAPPING"


def test_an_abort_without_a_transaction_starts_and_ends_one() -> None:
    ended = end(at(State.EMPTY, client_version=2), EndRequest(7, 4, ABORT, 2), None, NOW_MS)
    assert isinstance(ended, Transaction)
    assert (ended.start_ms, ended.producer_epoch, ended.partitions) == (NOW_MS, 5, frozenset())


def test_the_last_epoch_needs_a_new_producer_id_and_can_be_retried() -> None:
    # As all previous transitions left it: the previous producer id is the same.
    worn = replace(at(State.ONGOING, LAST_CLIENT_EPOCH, 2), previous_producer_id=7)
    request = EndRequest(7, LAST_CLIENT_EPOCH, COMMIT, 2)
    assert isinstance(end(worn, request, None, NOW_MS), NeedsProducerId)
    prepared = end(worn, request, 9, NOW_MS)
    assert isinstance(prepared, Transaction)
    assert prepared.next_producer_id == 9
    complete = prepared.complete(NOW_MS)
    assert end(complete, request, None, NOW_MS) is None  # its response was lost
    with pytest.raises(KafkaError) as refused:
        end(complete, replace(request, commit=ABORT), None, NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_abandoned_transaction_is_aborted_with_the_next_epoch(version: int) -> None:
    aborted = abort(at(State.ONGOING), version, NOW_MS)
    assert (aborted.state, aborted.producer_epoch) == (State.PREPARE_ABORT, 5)
    assert aborted.client_version == (2 if version == 2 else 0)
    assert aborted.last_producer_epoch == (4 if version == 2 else -1)
    assert outcome(aborted, ABORT, version, epoch=3) == "PRODUCER_FENCED"
