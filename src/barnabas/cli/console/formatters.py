"""Records to text, as selected by `console-consumer --formatter` and `--property`.

Contains the formatters for ordinary topics and the lookup by class name; those of internal topics belong in
`internal_formatters`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO, Protocol

from barnabas.cli.console.deserializers import deserializer
from barnabas.cli.console.line_reader import is_true
from barnabas.cli.framework.exits import UsageError, one_line

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord

PACKAGE = "org.apache.kafka.tools.consumer."
DEFAULT = "DefaultMessageFormatter"
# The packages of the formatters, including those before Apache Kafka 4.
_OLD_PACKAGES = (
    "kafka.tools.",
    "kafka.coordinator.group.GroupMetadataManager$",
    "kafka.coordinator.transaction.TransactionLog$",
    PACKAGE + "group.share.",
    PACKAGE,
)
_TIMESTAMP_TYPES = {0: b"CreateTime:", 1: b"LogAppendTime:"}
_INTERNAL = (
    "OffsetsMessageFormatter",
    "GroupMetadataMessageFormatter",
    "TransactionLogMessageFormatter",
    "ShareGroupStateMessageFormatter",
)


class Formatter(Protocol):
    def write(self, record: ConsumerRecord, out: BinaryIO) -> None: ...


class DefaultFormatter:
    """Prints the selected parts of a record, in Apache Kafka's order, with separators between them."""

    def __init__(self, properties: Mapping[str, str], program: str) -> None:
        def wants(name: str, default: str = "false") -> bool:
            return is_true(properties.get(f"print.{name}", default))

        self._timestamp = wants("timestamp")
        self._partition = wants("partition")
        self._offset = wants("offset")
        self._delivery = wants("delivery")
        self._epoch = wants("epoch")
        self._headers = wants("headers")
        self._key = wants("key")
        self._value = wants("value", "true")
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key_text = deserializer(properties, "key.deserializer", program)
        self._value_text = deserializer(properties, "value.deserializer", program)
        self._header_text = deserializer(properties, "headers.deserializer", program)

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        parts = self._about(record)
        if self._headers:
            parts.append(self._headers_separator.join(map(self._header, record.headers)) or b"NO_HEADERS")
        if self._key:
            parts.append(self._null if record.key is None else self._key_text(_bytes(record.key)))
        if self._value:
            parts.append(self._null if record.value is None else self._value_text(_bytes(record.value)))
        if parts:
            out.write(self._separator.join(parts) + self._line_end)

    def _about(self, record: ConsumerRecord) -> list[bytes]:
        parts = []
        if self._timestamp:
            kind = _TIMESTAMP_TYPES.get(record.timestamp_type)
            parts.append(b"NO_TIMESTAMP" if kind is None else kind + b"%d" % record.timestamp)
        if self._partition:
            parts.append(b"Partition:%d" % record.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._delivery:
            # Only share groups count deliveries (KIP-932).
            parts.append(b"Delivery:NOT_PRESENT")
        if self._epoch:
            known = record.leader_epoch >= 0
            parts.append(b"Epoch:%d" % record.leader_epoch if known else b"Epoch:NOT_PRESENT")
        return parts

    def _header(self, header: tuple[str, bytes | None]) -> bytes:
        name, value = header
        return name.encode() + b":" + (self._null if value is None else self._header_text(value))


class LoggingFormatter:
    """Like DefaultFormatter, and prints each record on stderr too."""

    def __init__(self, properties: Mapping[str, str], program: str) -> None:
        self._default = DefaultFormatter(properties, program)

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        self._default.write(record, out)
        kind = _TIMESTAMP_TYPES.get(record.timestamp_type)
        time = "" if kind is None else f"{kind.decode()}{record.timestamp}, "
        key, value = (
            "null" if field is None else _bytes(field).decode("utf-8", "replace")
            for field in (record.key, record.value)
        )
        print(one_line(f"{time}key:{key}, value:{value}"), file=sys.stderr)


class NoOpFormatter:
    """Prints nothing: to count records, or to measure throughput."""

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        return


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def formatter(class_name: str, properties: Mapping[str, str], program: str) -> Formatter:
    """The formatter for one of Apache Kafka's class names, with or without its package."""
    name = class_name
    for package in _OLD_PACKAGES:
        name = name.removeprefix(package)
    if name == DEFAULT:
        return DefaultFormatter(properties, program)
    if name == "LoggingMessageFormatter":
        return LoggingFormatter(properties, program)
    if name == "NoOpMessageFormatter":
        return NoOpFormatter()
    if name in _INTERNAL:
        from barnabas.cli.console.internal_formatters import internal_formatter

        return internal_formatter(name)
    known = ", ".join((DEFAULT, "LoggingMessageFormatter", "NoOpMessageFormatter", *_INTERNAL))
    raise UsageError(
        f"{program}: the formatter {class_name} cannot be loaded (there is no Java); available: {known}"
    )
