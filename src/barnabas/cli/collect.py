"""`barnabas collect`: writes lines from files, the standard input and syslog to a topic."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from logging import INFO, WARNING
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.key_values import key_values
from barnabas.cli.friendly.framework import add_cluster, client_options

if TYPE_CHECKING:
    from barnabas.collect import Collector, FileSource
    from barnabas.collect.sources import Source

PROGRAM = "barnabas collect"
EPILOG = """\
Files are followed through rotation.  With --state a restart continues after the last written line; after a
crash the last second may be sent again, but no line is lost.
"""


def make_parser() -> ArgumentParser:
    parser = ArgumentParser(PROGRAM, "Send each line as a record, until stopped.", EPILOG)
    add_cluster(parser)
    add = parser.add_argument
    add("patterns", nargs="*", metavar="GLOB", help="files to follow; ** matches across folders")
    add("--topic", required=True, metavar="TOPIC", help="the topic to write to")
    add("--stdin", action="store_true", help="collect the standard input until its end")
    add(
        "--syslog",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="listen for syslog: udp://HOST:PORT or tcp://HOST:PORT; may be given several times",
    )
    add(
        "--state",
        metavar="FILE",
        help="file that stores the positions; without it, files are read from the start",
    )
    add(
        "--from-end",
        action="store_true",
        help="at the first start, collect only lines that are added from now on",
    )
    add("--once", action="store_true", help="exit at the end of the files instead of waiting for more lines")
    add("--key", choices=("none", "origin"), default="none", help="the key of the records (default none)")
    add("--no-origin", action="store_true", help="omit the header that names the origin of a line")
    add(
        "--producer-property", action="append", default=[], metavar="KEY=VALUE", help="property of the client"
    )
    add("--quiet", action="store_true", help="do not report files that appear and disappear")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    if not (options.patterns or options.stdin or options.syslog):
        parser.error("nothing to collect: give files, --stdin or --syslog")
    if options.once and options.syslog:
        parser.error("--once is for files and the standard input: syslog has no end")
    properties = {**client_options(parser, options), **key_values(options.producer_property)}
    from barnabas.cli.server.server_logs import logging_to
    from barnabas.collect.running import run_until_signalled

    files = file_source(options) if options.patterns else None
    with logging_to(None, "text", WARNING if options.quiet else INFO):
        try:
            with _claimed(options.state):
                collector = run_until_signalled(lambda: make_collector(parser, options, properties, files))
        except ValueError as error:
            raise CommandError(f"{PROGRAM}: {error}") from error
    if not options.quiet:
        print(f"{PROGRAM}: {collector.lines_written} lines written to {options.topic}", file=sys.stderr)
    if options.once and files is not None and files.unmatched:
        return Exit.NOT_FOUND  # The source has already reported which.
    return Exit.OK


def _claimed(state: str | None) -> AbstractContextManager[None]:
    """Two collectors with the same positions file would overwrite each other's positions."""
    from barnabas.collect.positions import PositionsFile

    if state is None:
        return nullcontext()
    positions = PositionsFile(state)
    # A damaged file is reported before anything else happens.
    positions.load()
    return positions.claimed()


def file_source(options: Namespace) -> FileSource:
    from barnabas.collect import FileSource
    from barnabas.collect.positions import PositionsFile

    positions = PositionsFile(options.state) if options.state is not None else None
    return FileSource(options.patterns, positions, from_end=options.from_end, until_end=options.once)


async def make_collector(
    parser: ArgumentParser, options: Namespace, properties: dict[str, object], files: FileSource | None
) -> Collector:
    from barnabas.collect import Collector, StandardInput, SyslogAddress, SyslogSource

    sources: list[Source] = []
    if files is not None:
        sources.append(files)
    if options.stdin:
        sources.append(StandardInput())
    if options.syslog:
        try:
            syslog = SyslogSource([SyslogAddress.parse(text) for text in options.syslog])
        except ValueError as error:
            parser.error(f"--syslog: {error}")
        await syslog.open()
        for bound in syslog.bound:
            print(f"{PROGRAM}: syslog on {bound.protocol}://{bound.host}:{bound.port}", file=sys.stderr)
        sources.append(syslog)
    return Collector(
        options.topic,
        sources,
        properties,
        with_origin=not options.no_origin,
        key_by_origin=options.key == "origin",
    )
