"""Keys and values of ordinary topics as text: strings, numbers or hexadecimal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.batch.records import Record
from barnabas.cli.framework.exits import CommandError, UsageError


class Decoder(Protocol):
    """The text of a record's key and value; None for what is not printed."""

    def texts(self, record: Record) -> tuple[str | None, str | None]: ...


def string_text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def integer_text(data: bytes) -> str:
    return _number_text(data, 4, "an integer")


def long_text(data: bytes) -> str:
    return _number_text(data, 8, "a long")


def hexadecimal_text(data: bytes) -> str:
    return data.hex()


def _number_text(data: bytes, size: int, kind: str) -> str:
    if len(data) < size:
        raise CommandError(f"{len(data)} bytes cannot be decoded as {kind}, which has {size}")
    return str(int.from_bytes(data[:size], "big", signed=True))


_PLAIN: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": string_text,
    "IntegerDecoder": integer_text,
    "LongDecoder": long_text,
    # Java's decoder prints the identity of the array ([B@...), which is useless.
    "DefaultDecoder": hexadecimal_text,
}
_PLAIN_PACKAGES = ("org.apache.kafka.tools.api.", "kafka.serializer.", "")


def plain_decoder(class_name: str) -> Callable[[bytes], str]:
    """The decoder for one of Apache Kafka's classes; other classes would need Java."""
    for package in _PLAIN_PACKAGES:
        name = class_name.removeprefix(package)
        if class_name == package + name and name in _PLAIN:
            return _PLAIN[name]
    raise UsageError(
        f"barnabas dump-log: the decoder class {class_name} cannot be loaded (there is no Java); "
        f"available: {', '.join(sorted(_PLAIN))}"
    )


class PlainDecoder:
    """Keys and values of an ordinary topic."""

    def __init__(self, key: Callable[[bytes], str], value: Callable[[bytes], str]) -> None:
        self._key = key
        self._value = value

    def texts(self, record: Record) -> tuple[str | None, str | None]:
        key = None if record.key is None else self._key(record.key)
        return key, None if record.value is None else self._value(record.value)
