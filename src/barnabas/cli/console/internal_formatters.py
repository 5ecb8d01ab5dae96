"""Records of internal topics as JSON, with no line end between them, as Apache Kafka 4.1 prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from barnabas.base.errors import KafkaError
from barnabas.protocol.json_form import json_text, to_json
from barnabas.protocol.primitives import Reader
from barnabas.protocol.record_frame import coordinator_records, read_coordinator_key, read_versioned

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord

_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT, _GROUP_METADATA = 0, 1, 2


class InternalFormatter:
    """Prints the given types of a coordinator's records, or all types if none is given."""

    def __init__(self, coordinator: str, *kinds: int) -> None:
        self._classes = coordinator_records(coordinator)
        self._coordinator = coordinator
        self._kinds = kinds or tuple(self._classes)

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        if not isinstance(record.key, bytes):
            return
        try:
            kind = Reader(record.key).int16()
            if kind not in self._kinds or kind not in self._classes:
                return
            key = to_json(read_coordinator_key(record.key, self._coordinator), 0)
            value: dict[str, object] | None = None
            if isinstance(record.value, bytes):
                message, version = read_versioned(self._classes[kind][1], record.value)
                value = {"version": version, "data": to_json(message, version)}
        except KafkaError as error:
            raise ValueError(
                f"Could not read record at offset {record.offset} due to: {error.message}"
            ) from error
        out.write(json_text({"key": {"type": kind, "data": key}, "value": value}).encode())


def internal_formatter(name: str) -> InternalFormatter:
    if name == "OffsetsMessageFormatter":
        return InternalFormatter("group", _LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT)
    if name == "GroupMetadataMessageFormatter":
        return InternalFormatter("group", _GROUP_METADATA)
    return InternalFormatter("transaction" if name.startswith("Transaction") else "share")
