"""Keys and values that are not text: `--key-format`, `--value-format`, and how their contents are shown."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, time
from typing import Any

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError

AVRO = "avro"
FORMATS = (AVRO, "json", "short", "integer", "long", "float", "double")


def add_formats(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--value-format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"what the values are, if not text: {', '.join(FORMATS[:-1])} or {FORMATS[-1]}",
    )
    add("--key-format", choices=FORMATS, metavar="FORMAT", help="what the keys are, if not text")
    add("--schema-registry", metavar="URL", help="where the schemas of Avro are, as http://HOST:PORT")


def check_formats(parser: ArgumentParser, options: Namespace) -> None:
    """Raises UsageError if there is Avro without a registry, or the reverse."""
    is_avro = AVRO in (options.key_format, options.value_format)
    if is_avro and options.schema_registry is None:
        parser.error("Avro needs --schema-registry URL, where its schemas are")
    if options.schema_registry is not None and not is_avro:
        parser.error("--schema-registry needs --value-format avro or --key-format avro")


def deserializers(parser: ArgumentParser, options: Namespace) -> dict[str, object]:
    """The options of the consumer that reads these formats."""
    found: dict[str, object] = {}
    for option, name in (
        ("key.deserializer", options.key_format),
        ("value.deserializer", options.value_format),
    ):
        if name is not None:
            found[option] = _Shown(_avro(parser, options) if name == AVRO else _by_name(name))
    return found


def _by_name(name: str) -> Any:
    from barnabas.client import serialization

    return getattr(serialization, name.upper())


def _avro(parser: ArgumentParser, options: Namespace) -> Any:
    from barnabas.client.serialization import Avro, SchemaRegistry

    try:
        return Avro(registry=SchemaRegistry(options.schema_registry))
    except ValueError as error:
        parser.error(f"--schema-registry: {error}")
    except ImportError as error:
        raise CommandError(f"{parser.prog}: {error}") from error


@contextmanager
def format_errors(program: str) -> Iterator[None]:
    """Names the flags where a record is not what they say."""
    from barnabas.cli.framework.kafka_errors import exit_code
    from barnabas.client.errors import RecordDeserializationError

    try:
        yield
    except RecordDeserializationError as error:
        line = f"{program}: {error.message}; check --key-format and --value-format"
        raise CommandError(line, exit_code(error)) from error


class _Shown:
    """A deserializer whose results JSON can show."""

    def __init__(self, written: Any) -> None:
        self._written = written

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return shown(self._written.deserialize(topic, data))


def shown(value: Any) -> Any:
    """What JSON has for a value: bytes as Avro's own JSON writes them, times and other numbers as text."""
    if isinstance(value, Mapping):
        return {str(name): shown(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


def text_of(value: object) -> str:
    """A key or value as text: what is not text already as JSON on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def bytes_of(value: object) -> bytes:
    """The bytes to print for a key or value: its own, unless it was deserialized."""
    if value is None:
        return b""
    return value if isinstance(value, bytes) else text_of(value).encode(errors="replace")
