"""Records as JSON objects: what `consume -o jsonl` prints is what `produce` reads, byte for byte.

Keys, values and headers are text where they are UTF-8; where they are not, the field's name ends with
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
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.friendly.output import Column, Row
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
    return ",".join(f"{one['key']}={one.get('value', one.get('value' + BASE64))}" for one in headers) or "-"


COLUMNS = (
    Column("topic"),
    Column("partition", is_number=True),
    Column("offset", is_number=True),
    Column("timestamp", show=show_time, title="TIME"),
    Column("key", other="key_base64"),
    Column("headers", is_wide=True, show=_show_headers),
    Column("value", other="value_base64"),
)


def row_of(record: ConsumerRecord) -> Row:
    """A record that was read."""
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


def _field(name: str, value: object) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    assert isinstance(value, bytes), "no deserializer is set"
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {name + BASE64: base64.b64encode(value).decode("ascii")}


@dataclass(frozen=True, slots=True)
class Given:
    """A record to be sent."""

    topic: str | None
    partition: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def looks_like_one(line: bytes) -> bool:
    """Whether a line is a record as `row_of` gives it, and not somebody's JSON value."""
    try:
        found = json.loads(line)
    except ValueError:
        return False
    is_ours = isinstance(found, dict) and "offset" in found and found.keys() <= FIELDS
    return is_ours and ("value" in found or "value" + BASE64 in found)


def parse(line: bytes) -> Given:
    """A record from its line; ValueError says what is wrong with it."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("a record is a JSON object with at least a value")
    unknown = sorted(found.keys() - FIELDS)
    if unknown:
        raise ValueError(f"a record has no field {unknown[0]}; it may have {', '.join(sorted(FIELDS))}")
    headers = found.get("headers", [])
    if not isinstance(headers, list) or not all(isinstance(one, dict) and "key" in one for one in headers):
        raise ValueError('headers are a list of {"key": …, "value": …}')
    return Given(
        topic=_typed(found, "topic", str),
        partition=_typed(found, "partition", int),
        timestamp_ms=_typed(found, "timestamp", int),
        key=_bytes(found, "key"),
        value=_bytes(found, "value"),
        headers=tuple((str(one["key"]), _bytes(one, "value")) for one in headers),
    )


def _typed(found: Mapping[str, object], name: str, kind: type[T]) -> T | None:
    value = found.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is a {kind.__name__}, not {value!r}")


def _bytes(found: Mapping[str, object], name: str) -> bytes | None:
    encoded = found.get(name + BASE64)
    if encoded is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}{BASE64}: {error}") from None
    value = found.get(name)
    if value is None:
        return None
    # What is no text was not printed by consume, but a program may well write {"value": {"id": 1}}.
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8")
