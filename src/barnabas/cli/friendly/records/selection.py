"""Which records `consume` and `tail` print, and how: filters, formats, templates, nested JSON."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.friendly.framework import FriendlyParser
from barnabas.cli.friendly.output import Row
from barnabas.cli.friendly.records.decoding import add_formats, bytes_of, check_formats

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord

FIELDS = "%t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp, %% a percent sign"
_PLACE = re.compile(r"%(.)|\\(.)", re.S)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


class RecordParser(FriendlyParser):
    """Accepts kcat's `-f TEMPLATE` beside tail's `-f`, which has no value: no topic has a percent sign."""

    def parse(self, arguments: Sequence[str]) -> Namespace:
        given = list(arguments)
        for place, (flag, value) in enumerate(zip(given, [*given, ""][1:], strict=True)):
            if flag == "--":
                break
            if (flag == "-f" and "%" in value) or (flag.startswith("-f") and "%" in flag):
                given[place] = "-F" + flag[len("-f") :]
        return super().parse(given)


def add_selection(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--key", metavar="KEY", help="only records with this key")
    add("--grep", metavar="REGEX", help="only records in whose value this regular expression is found")
    add(
        "-F",
        "--format",
        metavar="TEMPLATE",
        help=f"print each record so: {FIELDS.replace('%', '%%')}; \\n, \\t",
    )
    add("--nested", action="store_true", help="print values that are JSON as JSON, not as text")
    add_formats(parser)


def check_selection(parser: ArgumentParser, options: Namespace) -> None:
    """Raises UsageError for a wrong regular expression or template, and for unfit formats."""
    check_formats(parser, options)
    try:
        options.grep = None if options.grep is None else re.compile(options.grep.encode())
    except re.error as error:
        parser.error(f"--grep: {error}")
    options.template = None
    if options.format is not None:
        if options.output != "table" or options.value_only:
            parser.error("--format is an output of its own: it cannot be combined with -o or --value-only")
        try:
            options.template = parse_template(options.format)
        except ValueError as error:
            parser.error(f"--format: {error}")


def chosen(
    options: Namespace, polls: Iterable[list[ConsumerRecord[Any, Any]]]
) -> Iterator[list[ConsumerRecord[Any, Any]]]:
    """The records that the filters leave, poll by poll."""
    if options.key is None and options.grep is None:
        yield from polls
        return
    key = None if options.key is None else options.key.encode()
    search = None if options.grep is None else options.grep.search
    for records in polls:
        yield [
            record
            for record in records
            if (key is None or (record.key is not None and bytes_of(record.key) == key))
            and (search is None or search(bytes_of(record.value)))
        ]


# Templates --------------------------------------------------------------------------------------------------

Part = bytes | Callable[[Any], bytes]


def _headers(record: Any) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


_FIELDS: dict[str, Callable[[Any], bytes]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: bytes_of(record.key),
    "s": lambda record: bytes_of(record.value),
    "h": _headers,
    "T": lambda record: b"%d" % record.timestamp,
}


def parse_template(text: str) -> list[Part]:
    """The parts of a template; raises ValueError for an unknown field."""
    parts: list[Part] = []
    end = 0
    for found in _PLACE.finditer(text):
        parts.append(text[end : found.start()].encode())
        end = found.end()
        if found[2] is not None:
            parts.append(_ESCAPES.get(found[2], found[0].encode()))
        elif found[1] == "%":
            parts.append(b"%")
        elif found[1] in _FIELDS:
            parts.append(_FIELDS[found[1]])
        else:
            raise ValueError(f"%{found[1]} is no field: {FIELDS}")
    parts.append(text[end:].encode())
    return [part for part in parts if part != b""]


def render(template: list[Part], record: Any) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part(record) for part in template)


def nested(row: Row) -> Row:
    """A row whose value is what its JSON says; other values stay text."""
    text = row.get("value")
    if not isinstance(text, str):
        return row
    try:
        value = json.loads(text)
    except ValueError:
        return row
    # A string that looks like another value would come back as that.
    return {**row, "value": text if isinstance(value, str) else value}
