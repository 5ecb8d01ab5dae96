"""The command `barnabas demo`: what it needs is said before anything starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError

PROGRAM = "barnabas demo"
FOLDER = "demo"
SECONDS_WITHOUT_TERMINAL = 120
DESCRIPTION = (
    "A broker, services that write logs, a collector and the log pipeline on Spark, with a live view and "
    "finally a page. Everything it writes is in a folder; the next run continues from there."
)


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(PROGRAM, DESCRIPTION)
    parser.add_argument(
        "--folder", default=FOLDER, metavar="FOLDER", help=f"what it writes goes there (default {FOLDER})"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help=f"how long it runs (default on a terminal: until Ctrl+C; elsewhere {SECONDS_WITHOUT_TERMINAL})",
    )
    options = parser.parse(arguments)
    if find_spec("pyspark") is None:
        raise CommandError(f"{PROGRAM} needs Spark: pip install 'barnabas[spark,java]'")
    from barnabas.cli.demo.run import demo

    seconds = options.seconds
    if seconds is None and not sys.stdout.isatty():
        seconds = SECONDS_WITHOUT_TERMINAL
    logging.basicConfig(level=logging.ERROR)
    return demo(options.folder, seconds)
