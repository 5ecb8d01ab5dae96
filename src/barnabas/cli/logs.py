"""`barnabas logs`: what lines of log files say, whatever their format; without a broker, without Spark."""

from __future__ import annotations

import gc
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import Exit, code_for, describe, one_line
from barnabas.cli.framework.subcommands import Subcommand
from barnabas.cli.friendly.framework import add_output, friendly_tool
from barnabas.cli.friendly.output import NOTHING, Column, Printer, Row

if TYPE_CHECKING:
    from barnabas.logs.files import Tally
    from barnabas.spark.logs.config import Config

PROGRAM = "barnabas logs"
FILE = "a file of log lines, also compressed (gzip, bzip2, xz); - is the standard input"
SHOWN = 200  # Characters of the first unreadable line.
DETECTED = (
    Column("file"),
    Column("format"),
    Column("share"),
    Column("lines", is_number=True),
    Column("unreadable", is_number=True),
)


def run(arguments: Sequence[str]) -> int:
    description = "Find the format of log files, and turn their lines into JSON."
    return friendly_tool(PROGRAM, description, SUBCOMMANDS).run(arguments)


def _declare_detect(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILE)
    _add_config(parser)
    add_output(parser)


def _declare_parse(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILE)
    parser.add_argument(
        "-o", "--output", choices=("jsonl",), default="jsonl", help="one object a line (default jsonl)"
    )
    _add_config(parser)


def _add_config(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--config", default="", metavar="FILE", help="formats, fields, sources, services and alerts, in TOML"
    )


def _config(parser: ArgumentParser, path: str) -> Config:
    from barnabas.spark.logs.config import read_config
    from barnabas.spark.pipeline.definition import PipelineError

    try:
        return read_config(path)
    except PipelineError as error:
        parser.error(str(error))


def _each(files: Iterable[str], handle: Callable[[str], Tally]) -> int:
    """Handle every file; one that cannot be read does not keep the others from it.  The first failure decides
    the exit code."""
    from barnabas.logs.files import NotALogError
    from barnabas.logs.known import FormatFunctionError

    codes: list[Exit] = []
    for path in files:
        try:
            tally = handle(path)
        except BrokenPipeError:
            raise
        except NotALogError as error:
            _complain(f"{path} {error}")
            codes.append(Exit.FAILED)
        except FormatFunctionError as error:
            _complain(f"{path}: {error}")
            codes.append(Exit.FAILED)
        except OSError as error:
            _complain(describe(error))
            codes.append(code_for(error))
        else:
            if tally.mostly_unknown:
                first = (tally.first_unknown or "")[:SHOWN]
                _complain(
                    f"{path}: {tally.unknown} of {tally.total} lines are unreadable, the first: {first}"
                )
                codes.append(Exit.FAILED)
    return codes[0] if codes else Exit.OK


def _complain(text: str) -> None:
    print(f"{PROGRAM}: {one_line(text)}", file=sys.stderr)


def _detect(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.logs.files import detect
    from barnabas.logs.records import UNKNOWN

    rows: list[Row] = []
    known = _config(parser, options.config).known()

    def handle(path: str) -> Tally:
        tally = detect(path, known)
        found = [(name, count) for name, count in tally.formats.most_common() if name != UNKNOWN]
        name, count = found[0] if found else (NOTHING, 0)
        share = f"{count / max(tally.total, 1):.0%}"
        row = {
            "file": path,
            "format": name,
            "share": share,
            "lines": tally.total,
            "unreadable": tally.unknown,
        }
        rows.append(row)
        return tally

    code = _each(options.files, handle)
    Printer(options.output, DETECTED, name="format").all(rows)
    return code


def _parse(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.logs.files import Tally, parse
    from barnabas.logs.output import as_json

    config = _config(parser, options.config)
    known = config.known()

    def handle(path: str) -> Tally:
        tally, service = Tally(), config.given_service(path)
        for rows in as_json(parse(path, tally, known), service):
            sys.stdout.write(rows)
        return tally

    with _no_garbage():
        return _each(options.files, handle)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Records make no cycles, and to look for some among many thousands takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _declare_report(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        default=["."],
        metavar="PATH",
        help="a file of log lines, or a folder of some (default: this folder)",
    )
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page (default report.html)")
    _add_config(parser)


def _report(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.spark.logs.report import page, write_page
    from barnabas.spark.logs.report.files import FileResults, log_files

    results = FileResults(_config(parser, options.config))
    codes: list[int] = []

    def make() -> str:
        files = log_files(options.files, lambda path, reason: _complain(f"{path} {reason}: left out"))
        codes.append(_each(files, results.add))
        return page(results.finished())

    try:
        with _no_garbage():
            write_page(options.out, make)
    except OSError as error:
        _complain(describe(error))
        return code_for(error)
    found = results.results
    said = f"{found.lines:,} lines of {len(found.services)} services, {found.bad.total():,} unreadable"
    print(f"{options.out}: {said}")
    return codes[0]


SUBCOMMANDS = {
    "detect": Subcommand("show the format of each file, judged by its first lines", _declare_detect, _detect),
    "parse": Subcommand("print what each line says: time, level, service, message", _declare_parse, _parse),
    "report": Subcommand("write a page: what happened when, and in which service", _declare_report, _report),
}
