"""Entries: the records of the coordinators' topics, between messages and bytes.

A key starts with its type and a value with its version, two bytes each.  Keys have only version 0; values are
written in the version that the cluster's features prescribe, which is chosen by the creator of the entry.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import (
    coordinator_records,
    read_coordinator_key,
    read_versioned,
    write_coordinator_key,
    write_versioned,
)
from barnabas.protocol.schema import Message

# The coordinator that the records belong to: each has its own key types.
GROUP = "group"
TRANSACTION = "transaction"

_TYPE_SIZE = 2


class Entry(NamedTuple):
    """One record.  Without a value it is a tombstone, which removes the key."""

    key: Message
    value: Message | None
    value_version: int = 0


class Unknown(NamedTuple):
    """A record that this release cannot read, with the reason; it is skipped."""

    reason: str


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """Returns the key and value in the format of the log."""
    value = None if entry.value is None else write_versioned(entry.value, entry.value_version)
    return write_coordinator_key(entry.key), value


def decode(key: bytes | None, value: bytes | None, coordinator: str) -> Entry | Unknown:
    """Decode a record of the log.  A corrupt record is treated like one of an unknown type."""
    if key is None:
        return Unknown("it has no key")
    try:
        message = read_coordinator_key(key, coordinator)
        if value is None:
            return Entry(message, None)
        kind = int.from_bytes(key[:_TYPE_SIZE], "big")
        value_class = coordinator_records(coordinator)[kind][1]
        decoded, version = read_versioned(value_class, value)
    except ProtocolError as error:
        return Unknown(error.message)
    return Entry(message, decoded, version)
