"""The text of coordinator records: groups, offsets, transactions, share group states."""

from __future__ import annotations

import base64
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.batch.records import Record
from barnabas.cli.framework.exits import CommandError
from barnabas.protocol.json_form import json_text, to_json
from barnabas.protocol.primitives import ProtocolError, Reader
from barnabas.protocol.record_frame import coordinator_records, read_coordinator_key, read_versioned
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.records.group import GroupMetadataValue
from barnabas.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.protocol.schema import Message

CONSUMER_PROTOCOL = "consumer"
DELETED = "<DELETE>"

# The names of the transaction states in 3.9, by id.
TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


class CoordinatorDecoder:
    """Keys and values as JSON.  A record that cannot be decoded is reported in its place and skipped."""

    def __init__(self, coordinator: str) -> None:
        self._coordinator = coordinator

    def texts(self, record: Record) -> tuple[str | None, str | None]:
        key = key_of(record)
        try:
            kind = Reader(key).int16()
            if kind not in coordinator_records(self._coordinator):
                return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
            key_message = read_coordinator_key(key, self._coordinator)
            key_text = json_text({"type": str(kind), "data": to_json(key_message, 0)})
            if record.value is None:
                return key_text, DELETED
            value_class = coordinator_records(self._coordinator)[kind][1]
            value, version = read_versioned(value_class, record.value)
            return key_text, json_text({"version": str(version), "data": value_json(value, version)})
        except KafkaError as error:
            return f"Error at offset {record.offset}, skipping. {error.message}", None


class OldTransactionDecoder:
    """Transactions as Apache Kafka 3.9 prints them."""

    def texts(self, record: Record) -> tuple[str | None, str | None]:
        key = key_of(record)
        kind = Reader(key).int16()
        if kind != 0:
            return f"unknown::version={kind}", None
        name = TransactionLogKey.decode(memoryview(key)[2:], 0).transactional_id
        key_text = f"transaction_metadata::transactionalId={name}"
        if record.value is None:
            return key_text, DELETED
        value, _ = read_versioned(TransactionLogValue, record.value)
        partitions = ",".join(
            f"{part.topic}-{partition}"
            for part in value.transaction_partitions or ()
            for partition in part.partition_ids
        )
        return key_text, (
            f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch}"
            f",state={transaction_state(value.transaction_status)},partitions=[{partitions}]"
            f",txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms}"
            f",txnTimeoutMs={value.transaction_timeout_ms}"
        )


def key_of(record: Record) -> bytes:
    if record.key is None:
        raise CommandError(
            f"Failed to decode message at offset {record.offset} using the specified decoder "
            "(message had a missing key)"
        )
    return record.key


def transaction_state(status: int) -> str:
    if not 0 <= status < len(TRANSACTION_STATES):
        raise CommandError(f"a transaction has the unknown status {status}")
    return TRANSACTION_STATES[status]


def value_json(value: Message, version: int) -> dict[str, Any]:
    """A value as JSON; subscriptions and assignments of classic consumer groups are decoded."""
    data = to_json(value, version)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == CONSUMER_PROTOCOL:
        for member in data["members"]:
            _decode_member_field(member, "subscription", ConsumerProtocolSubscription)
            _decode_member_field(member, "assignment", ConsumerProtocolAssignment)
    return data


def _decode_member_field(member: dict[str, Any], field: str, kind: type[Message]) -> None:
    """Replaces encoded bytes by JSON; bytes that cannot be decoded stay."""
    try:
        message, version = read_versioned(kind, base64.b64decode(member[field]))
        member[field] = to_json(message, version)
    except ProtocolError:
        return
