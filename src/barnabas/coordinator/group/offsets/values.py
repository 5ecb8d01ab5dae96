"""Committed offsets as bytes: the value format of the log, which is also the in-memory format.

A shard may hold a million offsets, most of which are never fetched.  So each is stored as the bytes of its
record's value: they take a third of the memory of an object, loading need not decode them, and Python's
garbage collector does not visit them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.metadata.features import metadata_version_named
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import read_versioned, write_versioned
from barnabas.protocol.records.group import OffsetCommitValue

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

# Only version 1 has its own expiration time (OffsetCommit 2 to 4, before KIP-211).
EXPIRING_VERSION = 1
# Version 4 is the first flexible version (KIP-915); brokers before 3.5 cannot read it.
FLEXIBLE_VERSION = 4
LAST_RIGID_VERSION = 3
_FLEXIBLE_SINCE = metadata_version_named("4.0-IV0").level

# A value without metadata, the common case: version, offset, leader epoch, empty metadata, commit time.
_PLAIN_FLEXIBLE = struct.Struct(">hqiBqB")
_PLAIN_RIGID = struct.Struct(">hqihq")
_EMPTY_COMPACT = 1
_NO_TAGS = 0


class Committed(NamedTuple):
    """A decoded committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: Uuid = ZERO_UUID


def value_version(metadata_version: int, *, expires: bool) -> int:
    """The version in which an offset is written."""
    if expires:
        return EXPIRING_VERSION
    return FLEXIBLE_VERSION if metadata_version >= _FLEXIBLE_SINCE else LAST_RIGID_VERSION


def pack(value: OffsetCommitValue, version: int) -> bytes:
    """Encode the value of a record."""
    if not value.metadata:
        if version == FLEXIBLE_VERSION and value.topic_id == ZERO_UUID:
            return _PLAIN_FLEXIBLE.pack(
                version, value.offset, value.leader_epoch, _EMPTY_COMPACT, value.commit_timestamp, _NO_TAGS
            )
        if version == LAST_RIGID_VERSION:
            return _PLAIN_RIGID.pack(version, value.offset, value.leader_epoch, 0, value.commit_timestamp)
    return write_versioned(value, version)


def unpack(raw: bytes) -> Committed:
    """Decode the value of a record."""
    if len(raw) == _PLAIN_FLEXIBLE.size:
        version, offset, epoch, text, commit_timestamp_ms, tags = _PLAIN_FLEXIBLE.unpack(raw)
        if version == FLEXIBLE_VERSION and text == _EMPTY_COMPACT and tags == _NO_TAGS:
            return Committed(offset, epoch, "", commit_timestamp_ms)
    value, _ = read_versioned(OffsetCommitValue, raw)
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


def check(raw: bytes) -> None:
    """Raises ProtocolError if these bytes are not a valid offset value."""
    if len(raw) == _PLAIN_FLEXIBLE.size and raw[:2] == b"\0\4" and raw[14] == 1 and raw[23] == 0:
        return
    try:
        unpack(raw)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"the value of an offset cannot be read: {error}") from error
