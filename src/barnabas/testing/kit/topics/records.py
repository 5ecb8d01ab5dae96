"""Records as tests see them, and how their values become bytes and back."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Protocol

from barnabas.testing.kit.errors import KitError

# The header of a value with a schema of a registry: a zero, and the schema's id.
_REGISTRY_HEADER = struct.Struct(">bI")


class Codec(Protocol):
    """How the values of a topic are written."""

    def encode(self, value: Any, /) -> bytes: ...

    def decode(self, data: bytes, /) -> Any: ...


class JsonCodec:
    """Text is sent as UTF-8, bytes as they are, anything else as JSON; values are read as JSON."""

    def encode(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        return (value if isinstance(value, str) else json.dumps(value)).encode()

    def decode(self, data: bytes) -> Any:
        return json.loads(data)


class BytesCodec:
    """Bytes, and nothing else."""

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise TypeError(f"the topic has the codec for bytes, and {value!r} is none")
        return value

    def decode(self, data: bytes) -> Any:
        return data


class AvroCodec:
    """Avro, with the package fastavro.

    With `schema_id` each value begins with the header that clients of a schema registry write.
    """

    def __init__(self, schema: Mapping[str, Any], *, schema_id: int | None = None) -> None:
        try:
            import fastavro
        except ImportError:
            raise KitError("Avro needs the package fastavro: pip install fastavro") from None
        self._avro = fastavro
        self._schema = fastavro.parse_schema(dict(schema))
        self._header = b"" if schema_id is None else _REGISTRY_HEADER.pack(0, schema_id)

    def encode(self, value: Any) -> bytes:
        out = BytesIO()
        out.write(self._header)
        self._avro.schemaless_writer(out, self._schema, value)
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        has_header = bool(self._header) and data[:1] == b"\0"
        start = _REGISTRY_HEADER.size if has_header else 0
        return self._avro.schemaless_reader(BytesIO(data[start:]), self._schema, None)


class TestRecord:
    """A record as it was read: `key`, `value`, `headers`, `partition`, `offset`, `timestamp`."""

    __test__ = False

    def __init__(self, record: Any, codec: Codec) -> None:
        self.topic: str = record.topic
        self.partition: int = record.partition
        self.offset: int = record.offset
        self.timestamp: int = record.timestamp
        self.key: bytes | None = record.key
        self.value: bytes | None = record.value
        self.headers: list[tuple[str, bytes | None]] = list(record.headers)
        self._codec = codec

    @property
    def json(self) -> Any:
        """The value, parsed as JSON."""
        return None if self.value is None else json.loads(self.value)

    @property
    def decoded(self) -> Any:
        """The value, as the topic's codec reads it."""
        return None if self.value is None else self._codec.decode(self.value)

    def __repr__(self) -> str:
        return f"record {self.partition}:{self.offset} key={self.key!r} value={self.value!r}"


def as_bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given
