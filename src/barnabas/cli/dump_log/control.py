"""The text of control records: transaction markers, and the control records of KRaft."""

from __future__ import annotations

from barnabas.batch.control import ControlType, control_type, read_marker
from barnabas.batch.records import Record
from barnabas.cli.framework.exits import CommandError
from barnabas.protocol.json_form import json_text, to_json
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.schema import Message

# The label printed before each message.
_QUORUM: dict[ControlType, tuple[str, type[Message]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}


def control_text(record: Record, kafka_release: str) -> str:
    """The text that follows the metadata of a control record."""
    kind = control_type(record)
    marker = read_marker(record)
    if marker is not None:
        result = "COMMIT" if marker.commit else "ABORT"
        return f" endTxnMarker: {result} coordinatorEpoch: {marker.coordinator_epoch}"
    if kind not in _QUORUM or (kind is ControlType.LEADER_CHANGE and kafka_release == "3.9"):
        number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
        return f" controlType: {kind.name}({number})"
    label, message = _QUORUM[kind]
    return f" {label} {_message_text(record, message)}"


def _message_text(record: Record, message: type[Message]) -> str:
    """The message, decoded in the version that its first field gives."""
    value = record.value or b""
    version = int.from_bytes(value[:2], "big", signed=True)
    try:
        decoded = message.decode(value, version)
    except ProtocolError as error:
        raise CommandError(
            f"the control record at offset {record.offset} is damaged: {error.message}"
        ) from error
    return json_text(to_json(decoded, version))
