"""Control records: records that the cluster itself writes.

Contains their keys and values (transaction markers; leader change, snapshot header and footer, kraft version
and voters of the metadata log), and batches of them.  Acting on them belongs in the packages that read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.records import NO_LEADER_EPOCH, NO_SEQUENCE, Record
from barnabas.batch.view import BatchView, CorruptBatch
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
KEY_VERSION = 0
MARKER_VERSION = 0


class ControlType(IntEnum):
    """The type of a control record; a type added by a later release reads as UNKNOWN and is skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_KNOWN = frozenset(ControlType)

QuorumMessage = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
QUORUM_MESSAGES: dict[ControlType, type[QuorumMessage]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of one producer's transaction in this partition."""

    commit: bool
    coordinator_epoch: int


def control_key(kind: ControlType) -> bytes:
    """The key of a control record of this type."""
    if kind is ControlType.UNKNOWN:
        raise ValueError("an unknown control type cannot be written")
    return _KEY.pack(KEY_VERSION, kind)


def control_type(record: Record) -> ControlType:
    """The type in a control record's key."""
    key = record.key
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch(
            f"the control record at offset {record.offset} has no whole key", ErrorCode.INVALID_RECORD
        )
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(
            f"the control record at offset {record.offset} has key version {version}",
            ErrorCode.INVALID_RECORD,
        )
    return ControlType(number) if number in _KNOWN else ControlType.UNKNOWN


def read_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in a control record; None if it is another kind of control record."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    value = record.value
    if value is None or len(value) < _MARKER.size:
        raise CorruptBatch(
            f"the transaction marker at offset {record.offset} has no whole value", ErrorCode.INVALID_RECORD
        )
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise CorruptBatch(
            f"the transaction marker at offset {record.offset} has version {version}",
            ErrorCode.INVALID_RECORD,
        )
    return EndTransactionMarker(kind is ControlType.COMMIT, coordinator_epoch)


def batch_marker(batch: BatchView) -> EndTransactionMarker | None:
    """The marker of a control batch; None for other control batches and for one that compaction emptied."""
    for record in batch.records():
        return read_marker(record)
    return None


def build_marker(
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch that ends a producer's transaction."""
    kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
    value = _MARKER.pack(MARKER_VERSION, marker.coordinator_epoch)
    return build(
        [Record(base_offset, timestamp, control_key(kind), value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        transactional=True,
        control=True,
    )


def read_quorum_message(record: Record) -> QuorumMessage | None:
    """The message of a quorum's control record; None if it is a marker or of an unknown type.

    Its first field is its version; a version of a later release is read as the newest known one.
    """
    message = QUORUM_MESSAGES.get(control_type(record))
    if message is None:
        return None
    value = record.value or b""
    version = min(int.from_bytes(value[:2], "big", signed=True), message.schema.versions.highest)
    try:
        return message.decode(value, version)
    except ProtocolError as error:
        raise CorruptBatch(
            f"the control record at offset {record.offset} is malformed: {error.message}",
            ErrorCode.INVALID_RECORD,
        ) from error


def build_quorum_batch(
    messages: Sequence[QuorumMessage],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of control records of the metadata log, each message in the version that it contains."""
    records = [
        Record(
            base_offset + index, timestamp, control_key(_kind_of(message)), message.encode(message.version)
        )
        for index, message in enumerate(messages)
    ]
    return build(records, leader_epoch=leader_epoch, control=True)


def _kind_of(message: QuorumMessage) -> ControlType:
    return next(kind for kind, known in QUORUM_MESSAGES.items() if type(message) is known)
