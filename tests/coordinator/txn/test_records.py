"""The records of transactional ids."""

from __future__ import annotations

import pytest

from barnabas.coordinator.entry import TRANSACTION, Entry, decode, encode
from barnabas.coordinator.txn.records import entry_of, tombstone_of, transaction_of
from barnabas.coordinator.txn.transaction import (
    LAST_CLIENT_EPOCH,
    State,
    Transaction,
    new_transaction,
)
from barnabas.protocol.records.transaction_log import TransactionLogValue
from barnabas.storage.log.names import TopicPartition

PARTITIONS = frozenset(
    {TopicPartition("orders", 2), TopicPartition("orders", 0), TopicPartition("payments", 1)}
)


def ongoing(epoch: int = 3, client_version: int = 2) -> Transaction:
    return Transaction("shop", 7, epoch, 60_000, State.ONGOING, PARTITIONS, 100, 200, client_version)


def read_back(transaction: Transaction, level: int) -> Transaction:
    entry = decode(*encode(entry_of(transaction, level)), TRANSACTION)
    assert isinstance(entry, Entry)
    assert isinstance(entry.value, TransactionLogValue)
    return transaction_of(transaction.transactional_id, entry.value)


def test_apache_kafkas_bytes_without_tagged_fields() -> None:
    key, value = encode(entry_of(ongoing(client_version=0), 0))
    assert key == bytes.fromhex("0000 0004") + b"shop"
    assert value == bytes.fromhex(
        "0000"  # version
        "0000000000000007 0003 0000ea60 01"  # producer id, epoch, timeout, Ongoing
        "00000002 0006 6f7264657273 00000002 00000000 00000002"  # orders 0, 2
        "0008 7061796d656e7473 00000001 00000001"  # payments 1
        "00000000000000c8 0000000000000064"  # updated, started
    )


def test_apache_kafkas_bytes_with_tagged_fields() -> None:
    _, value = encode(entry_of(ongoing(), 2))
    assert value is not None
    assert value.startswith(bytes.fromhex("0001 0000000000000007 0003 0000ea60 01 03"))
    assert value.endswith(bytes.fromhex("00000000000000c8 0000000000000064 01 02 02 0002"))  # client version
    _, value = encode(entry_of(ongoing(client_version=0), 1))
    assert value is not None
    assert value.endswith(bytes.fromhex("00000000000000c8 0000000000000064 00"))


def test_an_empty_transaction_has_null_partitions() -> None:
    empty = Transaction("shop", 7, 0, 60_000, State.EMPTY, frozenset(), -1, 200)
    assert encode(entry_of(empty, 0))[1] == bytes.fromhex(
        "0000 0000000000000007 0000 0000ea60 00 ffffffff 00000000000000c8 ffffffffffffffff"
    )


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_transaction_round_trips_through_its_record(level: int) -> None:
    assert read_back(ongoing(client_version=0), level) == ongoing(client_version=0)


def test_a_new_producer_id_survives_a_restart_before_completion() -> None:
    prepared = ongoing(LAST_CLIENT_EPOCH).prepare(
        commit=True, client_version=2, next_producer_id=9, now_ms=300
    )
    assert read_back(prepared, 2).next_producer_id == 9
    complete = read_back(prepared, 2).complete(400)
    assert (complete.producer_id, complete.producer_epoch) == (9, 0)
    assert read_back(complete, 2).previous_producer_id == 7


@pytest.mark.parametrize("client_version", [0, 2])
def test_other_records_contain_no_other_producer_ids(client_version: int) -> None:
    """As Apache Kafka 4.1 writes them."""
    begun = new_transaction("shop", 7, 60_000, 100).increment_epoch(60_000, None, 100)
    added = begun.add(PARTITIONS, client_version, 200)
    prepared = added.prepare(commit=True, client_version=client_version, now_ms=300)
    worn = Transaction("shop", 6, LAST_CLIENT_EPOCH, 60_000, State.COMPLETE_ABORT, frozenset(), 1, 2)
    rotated = worn.rotate(7, 60_000, 300, keep_epoch=True)
    for transaction in (begun, added, prepared, prepared.complete(400), rotated):
        value = entry_of(transaction, 2).value
        assert isinstance(value, TransactionLogValue)
        assert (value.previous_producer_id, value.next_producer_id) == (-1, -1), transaction.state


def test_an_expired_id_is_a_tombstone() -> None:
    assert encode(tombstone_of("shop")) == (bytes.fromhex("0000 0004") + b"shop", None)


def test_an_unknown_status_is_rejected() -> None:
    value = entry_of(ongoing(), 2).value
    assert isinstance(value, TransactionLogValue)
    value.transaction_status = 9
    with pytest.raises(ValueError, match="status 9"):
        transaction_of("shop", value)
