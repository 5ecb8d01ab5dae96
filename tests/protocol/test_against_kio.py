"""A second opinion: kio, another implementation, reads what we write and writes the same bytes.

kio has no ZooKeeper-mode APIs and few internal records.  It turns some numbers into times and error codes,
so values are first moved into the ranges of those types.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from pkgutil import resolve_name
from typing import Any

import hypothesis
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from barnabas.base.ids import Uuid
from barnabas.protocol.apis import apis
from barnabas.protocol.schema import Message

from .catalogue import instances, messages, versions

SETTINGS = hypothesis.settings(
    max_examples=4, phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck)
)
CODES = [int(code) for code in ErrorCode]
KIO: dict[tuple[str, int], str] = {
    (path.rpartition(":")[2], version): path
    for by_version in schema_name_map.values()
    for version, by_type in by_version.items()
    for path in by_type.values()
}
KNOWN = [cls for cls in messages() if any((cls.__name__, version) in KIO for version in versions(cls))]


ZOOKEEPER_MODE = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}


def test_kio_knows_every_request_and_response_of_kraft_mode() -> None:
    unknown = {
        api.name
        for api in apis().values()
        for cls in (api.request, api.response)
        for version in versions(cls)
        if (cls.__name__, version) not in KIO
    }
    assert unknown == ZOOKEEPER_MODE


def number_for(kafka_type: str, number: int) -> int:
    """A number that kio's richer type can hold."""
    if kafka_type == "error_code":
        return CODES[number % len(CODES)]
    if kafka_type.startswith(("timedelta", "datetime")):
        return number % 2**31
    return number


def as_number(value: Any) -> Any:
    """kio's richer value as the number on the wire."""
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (value - start) // datetime.timedelta(milliseconds=1)
    return int(value) if isinstance(value, ErrorCode) else value


def pairs(ours: Message, theirs: type[Any], version: int) -> list[tuple[str, str, str]]:
    """(our attribute, kio's attribute, kio's type) of every field; both keep the order of the definition."""
    present = [known for known in ours.schema.fields if version in known.versions]
    fields = dataclasses.fields(theirs)
    assert len(present) == len(fields), (ours.schema.name, version)
    return [
        (known.attribute, field.name, field.metadata.get("kafka_type", ""))
        for known, field in zip(present, fields, strict=True)
    ]


def struct_type(theirs: type[Any], attribute: str) -> type[Any]:
    """The class of a nested struct: kio's annotations name it once, perhaps within a tuple or a union."""
    pending = [theirs.__annotations__[attribute]]
    while pending:
        hint = pending.pop()
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return hint
        pending.extend(getattr(hint, "__args__", ()))
    raise AssertionError(f"{theirs.__name__}.{attribute} has no struct")


def settle(ours: Any, theirs: type[Any], version: int) -> None:
    """Move numbers into the ranges that kio accepts."""
    for mine, other, kind in pairs(ours, theirs, version):
        value = getattr(ours, mine)
        if isinstance(value, Message):
            settle(value, struct_type(theirs, other), version)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, Message):
                    settle(item, struct_type(theirs, other), version)
                elif type(item) is int:
                    value[index] = number_for(kind, item)
        elif type(value) is int:
            setattr(ours, mine, number_for(kind, value))


def same(ours: Any, theirs: Any, version: int) -> bool:
    """Whether both sides hold the same values."""
    if isinstance(ours, Message):
        return all(
            same(getattr(ours, mine), getattr(theirs, other), version)
            for mine, other, _ in pairs(ours, type(theirs), version)
        )
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(
            same(a, b, version) for a, b in zip(ours, theirs, strict=True)
        )
    if isinstance(ours, Uuid):
        return ours == (bytes(16) if theirs is None else uuid.UUID(str(theirs)).bytes)
    return bool(ours == as_number(theirs))


def check_with_kio(cls: type[Message], version: int) -> None:
    theirs = resolve_name(KIO[cls.__name__, version])
    read, write = entity_reader(theirs), entity_writer(theirs)

    @SETTINGS
    @hypothesis.given(instances(cls.schema, version))
    def check(message: Any) -> None:
        settle(message, theirs, version)
        encoded = message.encode(version)
        value, size = read(encoded, 0)
        assert size == len(encoded)
        assert same(message, value, version)
        stream = io.BytesIO()
        write(stream, value)
        assert stream.getvalue() == encoded
        assert cls.decode(stream.getvalue(), version) == message

    check()


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__name__)
def test_kio_reads_and_writes_the_same(cls: type[Message]) -> None:
    for version in versions(cls):
        if (cls.__name__, version) in KIO:
            check_with_kio(cls, version)
