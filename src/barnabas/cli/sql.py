"""`barnabas sql`: SQL over topics, and over data folders without a broker."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import Exit, one_line
from barnabas.cli.friendly.framework import FriendlyParser, add_cluster, add_output, client_options
from barnabas.cli.friendly.output import Column, Printer

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.tables.reading import Topics

PROGRAM = "barnabas sql"


def make_parser() -> FriendlyParser:
    parser = FriendlyParser(
        PROGRAM,
        "Run SQL over topics: each is a table with the columns topic, partition, offset, timestamp, key, "
        "value (bytes) and text (the value as UTF-8); conditions on partition, offset and timestamp spare "
        "reading.",
        "It only reads, and committed records only.",
    )
    add = parser.add_argument
    add("query", metavar="QUERY", help="such as 'SELECT count(*) FROM \"logs.counts\"'")
    add(
        "--data",
        action="append",
        default=[],
        metavar="FOLDER",
        help="read the topics in this data folder (log.dirs) instead, without a broker; may be repeated",
    )
    add("--stats", action="store_true", help="print how many records were read")
    add_output(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    from barnabas.tables.sql import QueryError, query

    try:
        with _topics(parser, options) as topics:
            result = query(options.query, topics)
            columns = tuple(Column(name, title=name.upper()) for name in result.columns)
            printer = Printer(options.output, columns, name=columns[0].field if columns else "row")
            for row in result.rows:
                printer.row({name: _plain(value) for name, value in zip(result.columns, row, strict=True)})
            printer.end()
            if options.stats:
                print(f"{topics.records_read:,} records read", file=sys.stderr)
    except (QueryError, ImportError) as error:
        print(f"{PROGRAM}: {one_line(str(error))}", file=sys.stderr)
        return Exit.FAILED
    return Exit.OK


def _topics(parser: FriendlyParser, options: Namespace) -> AbstractContextManager[Topics]:
    from barnabas.tables.reading import BrokerTopics, FolderTopics

    if options.data:
        return nullcontext(FolderTopics(options.data))
    return BrokerTopics(client_options(parser, options))


def _plain(value: object) -> object:
    """As JSON can hold it."""
    match value:
        case bytes():
            return value.decode(errors="backslashreplace")
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return float(value)
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
