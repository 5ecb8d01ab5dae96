"""The framing of internal records: the metadata log, the coordinators' topics, embedded data.

Contains the few bytes before a record that identify it.  Batches belong in `batch`, and the meaning of a
record in the package that applies it.

- Metadata log (value): frame version 1, api key, version, each an unsigned varint; then the record.
- Coordinators' topics: the key starts with its type (int16), the value with its version (int16).
- Data inside other messages (subscriptions, assignments, principals): a version (int16).
"""

from __future__ import annotations

import struct
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from barnabas.protocol.primitives import Buffer, ProtocolError, Reader, encode_unsigned_varint
from barnabas.protocol.schema import Message

M = TypeVar("M", bound=Message)

METADATA_FRAME_VERSION = 1
# Frame version, api key and version, if each is below 128.
_SHORT_FRAME = 3
_MANY_BYTES = 0x80
_INT16 = struct.Struct(">h")

# Coordinator -> the files under records/ that hold its keys and values.
COORDINATORS = {
    "group": ("group", "consumer_group", "share_group", "streams_group"),
    "share": ("share_state",),
    "transaction": ("transaction_log",),
}


def _messages(file: str) -> list[type[Message]]:
    module = import_module(f"barnabas.protocol.records.{file}")
    classes: list[Any] = [value for value in vars(module).values() if isinstance(value, type)]
    return [cls for cls in classes if issubclass(cls, Message) and cls is not Message]


@cache
def metadata_records() -> dict[int, type[Message]]:
    """Record classes of the metadata log by api key."""
    return {cls.schema.key: cls for cls in _messages("metadata") if cls.schema.key is not None}


@cache
def remote_log_records() -> dict[int, type[Message]]:
    """Record classes of the remote log metadata topic by api key, framed like those of the metadata log."""
    return {cls.schema.key: cls for cls in _messages("remote_log") if cls.schema.key is not None}


@cache
def coordinator_records(coordinator: str) -> dict[int, tuple[type[Message], type[Message]]]:
    """(key class, value class) by type, of `group`, `share` or `transaction`."""
    classes = [cls for file in COORDINATORS[coordinator] for cls in _messages(file)]
    keys = {cls.schema.key: cls for cls in classes if cls.__name__.endswith("Key")}
    values = {cls.schema.key: cls for cls in classes if cls.__name__.endswith("Value")}
    return {number: (cls, values[number]) for number, cls in keys.items() if number is not None}


def write_metadata_record(record: Message, version: int) -> bytes:
    key = record.schema.key
    if key is None:
        raise ProtocolError(f"{record.schema.name} is no record of the metadata log")
    start = b"".join(encode_unsigned_varint(number) for number in (METADATA_FRAME_VERSION, key, version))
    return start + record.encode(version)


def read_metadata_record(
    value: Buffer, classes: dict[int, type[Message]] | None = None
) -> tuple[Message, int]:
    """A record and its version; `classes` if it is not from the metadata log."""
    if len(value) >= _SHORT_FRAME and max(value[:_SHORT_FRAME]) < _MANY_BYTES:
        # Each of the three numbers is one byte, as in every record so far.
        (frame_version, key, version), position = value[:_SHORT_FRAME], _SHORT_FRAME
    else:
        reader = Reader(value)
        frame_version, key, version = (reader.unsigned_varint() for _ in range(_SHORT_FRAME))
        position = reader.position
    if frame_version != METADATA_FRAME_VERSION:
        raise ProtocolError(
            f"a metadata record has frame version {frame_version}, not {METADATA_FRAME_VERSION}"
        )
    known = (metadata_records() if classes is None else classes).get(key)
    if known is None:
        raise ProtocolError(f"there is no metadata record of type {key}")
    message, end = known.decode_from(value, position, version)
    if end != len(value):
        raise ProtocolError(
            f"{len(value) - end} bytes are left over behind version {version} of {known.schema.name}",
            position=end,
        )
    return message, version


def write_coordinator_key(key: Message) -> bytes:
    """Keys have a single version, 0; their type is written in its place."""
    if key.schema.key is None:
        raise ProtocolError(f"{key.schema.name} is no key of a coordinator's record")
    return _INT16.pack(key.schema.key) + key.encode(0)


def read_coordinator_key(key: Buffer, coordinator: str) -> Message:
    reader = Reader(key)
    kind = reader.int16()
    known = coordinator_records(coordinator).get(kind)
    if known is None:
        raise ProtocolError(f"there is no record of type {kind} of the {coordinator} coordinator")
    return known[0].decode(memoryview(key)[reader.position :], 0)


def write_versioned(message: Message, version: int) -> bytes:
    """A version and the message: values of coordinators' records, and data inside other messages."""
    return _INT16.pack(version) + message.encode(version)


def read_versioned(cls: type[M], value: Buffer) -> tuple[M, int]:
    """A message and its version; trailing bytes are ignored, since later versions may add fields."""
    version = Reader(value).int16()
    message, _ = cls.decode_from(value, _INT16.size, version)
    return message, version
