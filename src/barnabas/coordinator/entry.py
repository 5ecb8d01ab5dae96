"""Entries: the records of the coordinators' topics, between messages and bytes.

What lives here: one record as key and value, and its way to bytes and back.  What may not: what an entry
means, and batches.

A key starts with its type and a value with its version, two bytes each.  Keys have one version, 0; values are
written in the version that the cluster's features prescribe, which whoever makes the entry knows.
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

# Which coordinator's records: they number their types each for itself.
GROUP = "group"
TRANSACTION = "transaction"

_TYPE_SIZE = 2


class Entry(NamedTuple):
    """One record.  Without a value it is a tombstone: what the key names is gone."""

    key: Message
    value: Message | None
    value_version: int = 0


class Unknown(NamedTuple):
    """A record that this release cannot read, and why; it is passed over."""

    reason: str


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """Key and value as they stand in the log."""
    value = None if entry.value is None else write_versioned(entry.value, entry.value_version)
    return write_coordinator_key(entry.key), value


def decode(key: bytes | None, value: bytes | None, coordinator: str) -> Entry | Unknown:
    """What a record of the log says.  A damaged one is as unknown as one from the future."""
    if key is None:
        return Unknown("it has no key")
    try:
        message = read_coordinator_key(key, coordinator)
        if value is None:
            return Entry(message, None)
        kind = int.from_bytes(key[:_TYPE_SIZE], "big")
        value_class = coordinator_records(coordinator)[kind][1]
        read, version = read_versioned(value_class, value)
    except ProtocolError as error:
        return Unknown(error.message)
    return Entry(message, read, version)
