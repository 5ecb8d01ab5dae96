"""Records as JSON objects: `produce` reads back exactly what `consume -o jsonl` prints.

Keys, values and headers that are UTF-8 are text; otherwise the name of the field ends with
`_base64`:

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000, "key": "a", "value_base64":
    "/wA=", "headers": [{"key": "h", "value": "x"}]}
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.cli.friendly.output import Column, Row
from barnabas.cli.friendly.records.decoding import text_of
from barnabas.cli.friendly.records.times import show_time

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord

T = TypeVar("T", str, int)

BASE64 = "_base64"
FIELDS = frozenset(
    {"topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"}
)


def _show_headers(headers: object) -> str:
    assert isinstance(headers, list)
    return (
        ",".join(f"{header['key']}={header.get('value', header.get('value' + BASE64))}" for header in headers)
        or "-"
    )


COLUMNS = (
    Column("topic"),
    Column("partition", is_number=True),
    Column("offset", is_number=True),
    Column("timestamp", show=show_time, title="TIME", is_whole=True),
    Column("key", show=text_of, other="key_base64"),
    Column("headers", is_wide=True, show=_show_headers),
    Column("value", show=text_of, other="value_base64"),
)


def row_of(record: ConsumerRecord[Any, Any]) -> Row:
    """The row of a consumed record."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [{"key": name, **_field("value", value)} for name, value in record.headers],
    }


def name_of(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}@{row['offset']}"


def _field(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, bytes):
        return {name: value}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {name + BASE64: base64.b64encode(value).decode("ascii")}


@dataclass(frozen=True, slots=True)
class RecordToSend:
    """A record parsed from the input."""

    topic: str | None
    partition: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def is_record_line(line: bytes) -> bool:
    """Whether a line is a record as printed from `row_of`, and not an arbitrary JSON value."""
    try:
        data = json.loads(line)
    except ValueError:
        return False
    has_fields = isinstance(data, dict) and "offset" in data and data.keys() <= FIELDS
    return has_fields and ("value" in data or "value" + BASE64 in data)


def parse(line: bytes) -> RecordToSend:
    """Parses a line; raises ValueError."""
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("a record is a JSON object with at least a value")
    unknown = sorted(data.keys() - FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]}; a record has {', '.join(sorted(FIELDS))}")
    headers = data.get("headers", [])
    if not isinstance(headers, list) or not all(
        isinstance(header, dict) and "key" in header for header in headers
    ):
        raise ValueError('headers are a list of {"key": …, "value": …}')
    return RecordToSend(
        topic=_typed(data, "topic", str),
        partition=_typed(data, "partition", int),
        timestamp_ms=_typed(data, "timestamp", int),
        key=_bytes(data, "key"),
        value=_bytes(data, "value"),
        headers=tuple((str(header["key"]), _bytes(header, "value")) for header in headers),
    )


def _typed(data: Mapping[str, object], name: str, kind: type[T]) -> T | None:
    value = data.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} must be a {kind.__name__}, not {value!r}")


def _bytes(data: Mapping[str, object], name: str) -> bytes | None:
    encoded = data.get(name + BASE64)
    if encoded is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}{BASE64}: {error}") from None
    value = data.get(name)
    if value is None:
        return None
    # consume prints only text, but another program may write {"value": {"id": 1}}.
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8")
