"""`barnabas pipeline`: run a pipeline of Spark queries, see how far it is, draw it, begin anew."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, one_line
from barnabas.cli.framework.subcommands import Subcommand
from barnabas.cli.friendly.framework import add_output, add_plan, friendly_tool, may_go_on
from barnabas.cli.friendly.output import NOTHING, Column, Printer

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.spark.pipeline import Pipeline

T = TypeVar("T")

PROGRAM = "barnabas pipeline"
DEFAULT_MASTER = "local[*]"
DEFAULT_REPORT = "report.html"


def _offsets_text(offsets: object) -> str:
    """`orders-0:12`, as partitions are called elsewhere."""
    found = offsets if isinstance(offsets, dict) else {}
    places = [f"{topic}-{one}:{offset}" for topic, parts in found.items() for one, offset in parts.items()]
    return ",".join(places) or NOTHING


STATUS = (
    Column("sink"),
    Column("state"),
    Column("batch", is_number=True),
    Column("done"),
    Column("lag", is_number=True),
    Column("watermark"),
    Column("reads"),
    Column("to"),
    Column("begun", is_number=True, is_wide=True),
    Column("offsets", is_wide=True, show=_offsets_text),
)


def run(arguments: Sequence[str]) -> int:
    return friendly_tool(PROGRAM, "Run pipelines of Spark queries, and look at them.", SUBCOMMANDS).run(
        arguments
    )


def _declare(parser: ArgumentParser) -> None:
    """What all of them take."""
    add = parser.add_argument
    add("file", metavar="FILE", help="the pipeline: a .py or .toml file, or the name of a module")
    add(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another value for a setting of the pipeline, such as bootstrap or checkpoint; may be repeated",
    )


def _loaded(parser: ArgumentParser, options: Namespace) -> tuple[Pipeline, dict[str, str]]:
    """The pipeline and its settings."""
    from barnabas.spark.pipeline import load

    overrides = _pairs(parser, "--set", options.settings)
    pipeline = _refusing(parser, lambda: load(options.file))
    return pipeline, _refusing(parser, lambda: pipeline.settings_with(overrides))


def _check_only(parser: ArgumentParser, pipeline: Pipeline, options: Namespace) -> None:
    for name in options.only:
        if name not in pipeline.sinks:
            parser.error(f"{pipeline.name} has no sink {name}; there is {', '.join(pipeline.sinks)}")


def _pairs(parser: ArgumentParser, flag: str, given: Sequence[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one:
            parser.error(f"{flag} {one}: give KEY=VALUE")
    return dict(one.split("=", 1) for one in given)


def _refusing(parser: ArgumentParser, do: Callable[[], T]) -> T:
    """What the pipeline refuses is one line."""
    from barnabas.spark.pipeline import PipelineError

    try:
        return do()
    except PipelineError as error:
        raise CommandError(f"{parser.prog}: {error}") from error


def _checkpoint(parser: ArgumentParser, settings: dict[str, str]) -> Path:
    from barnabas.spark.pipeline.checkpoints import local_folder

    folder = local_folder(settings["checkpoint"])
    if folder is None:
        raise CommandError(
            f"{parser.prog}: the checkpoint {settings['checkpoint']} is not a folder on this machine; "
            "use the tools of where it is"
        )
    return folder


# Run --------------------------------------------------------------------------------------------------------


def _declare_run(parser: ArgumentParser) -> None:
    _declare(parser)
    add = parser.add_argument
    add("--master", default=DEFAULT_MASTER, help=f"where Spark runs (default {DEFAULT_MASTER}: here)")
    add(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of Spark, such as spark.executor.memory=2g; may be repeated",
    )
    add(
        "--every",
        metavar="INTERVAL",
        help='how often a batch begins, such as "5 seconds" (default: when the one before it has ended)',
    )
    add("--once", action="store_true", help="do what there is to do now, and end")
    add(
        "--only",
        action="append",
        default=[],
        metavar="SINK",
        help="run the query of this sink only; may be repeated",
    )


def _run(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.pipeline.run import run_pipeline

    if options.once and options.every:
        parser.error("--once ends by itself; leave out --every")
    conf = _pairs(parser, "--conf", options.conf)
    _check_master(parser, options.master)
    pipeline, settings = _loaded(parser, options)
    _check_only(parser, pipeline, options)
    return _refusing(parser, lambda: run_pipeline(parser.prog, pipeline, settings, options, conf))


def _check_master(parser: ArgumentParser, master: str) -> None:
    from barnabas.spark.masters import MasterError, check

    try:
        check(master)
    except MasterError as error:
        parser.error(f"--master {error}")


# Look -------------------------------------------------------------------------------------------------------


def _declare_status(parser: ArgumentParser) -> None:
    _declare(parser)
    add_output(parser)


def _status(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.pipeline.status import status_rows

    pipeline, settings = _loaded(parser, options)
    folder = _checkpoint(parser, settings)
    rows, problem = _refusing(parser, lambda: status_rows(pipeline, settings, folder))
    Printer(options.output, STATUS, name="sink").all(rows)
    if problem:
        sys.stdout.flush()
        print(one_line(f"{parser.prog}: the lag is not known: {problem}"), file=sys.stderr)
    return Exit.OK


def _declare_graph(parser: ArgumentParser) -> None:
    _declare(parser)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--dot", action="store_true", help="for Graphviz: | dot -Tsvg")
    kinds.add_argument("--mermaid", action="store_true", help="for pages that draw Mermaid")


def _graph(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.spark.pipeline import graph

    pipeline, settings = _loaded(parser, options)
    draw = graph.dot if options.dot else graph.mermaid if options.mermaid else graph.drawing
    for line in _refusing(parser, lambda: draw(pipeline, settings)):
        print(one_line(line))
    return Exit.OK


# Begin anew -------------------------------------------------------------------------------------------------


def _declare_reset(parser: ArgumentParser) -> None:
    _declare(parser)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="SINK",
        help="the query of this sink only; may be repeated",
    )
    add_plan(parser)


def _reset(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.spark.pipeline.checkpoints import forget

    pipeline, settings = _loaded(parser, options)
    folder = _checkpoint(parser, settings)
    _check_only(parser, pipeline, options)
    wanted = [name for name in options.only or pipeline.sinks if (folder / name).is_dir()]
    held = _refusing(parser, lambda: _held_back(pipeline, settings, wanted))
    plan = _refusing(parser, lambda: _reset_plan(parser, pipeline, folder, wanted)) + held
    if not wanted:
        print(f"{pipeline.name}: there is no checkpoint in {folder}; nothing to do", file=sys.stderr)
        return Exit.OK
    if may_go_on(parser.prog, options, plan):
        _refusing(parser, lambda: forget(folder, wanted))
        then = "begins anew when that folder is away" if held else "begins anew when it is run"
        print(f"{pipeline.name}: {then}", file=sys.stderr)
    return Exit.OK


def _held_back(pipeline: Pipeline, settings: dict[str, str], wanted: Sequence[str]) -> list[str]:
    """What is left to do by hand: to files that have a list of their batches nothing is written anew."""
    from barnabas.spark.pipeline.starting import FILE_LIST, listed_files

    places = [(name, listed_files(pipeline, pipeline.sinks[name], settings)) for name in wanted]
    return [
        f"then move {place} away, or give {name} another path: {name} is refused while {place / FILE_LIST} "
        "lists the batches of before, as Spark would skip as many"
        for name, place in places
        if place is not None
    ]


def _reset_plan(parser: ArgumentParser, pipeline: Pipeline, folder: Path, wanted: Sequence[str]) -> list[str]:
    from barnabas.spark.pipeline.checkpoints import is_running, read_done, read_identity

    known = read_identity(folder)
    if known is not None and known.pipeline != pipeline.name:
        raise CommandError(
            f"{parser.prog}: {folder} is the checkpoint of the pipeline {known.pipeline}, not of "
            f"{pipeline.name}; nothing was done"
        )
    plan = []
    for name in wanted:
        if is_running(folder, name):
            raise CommandError(f"{parser.prog}: {name} runs; stop it first (nothing was done)")
        batch = read_done(folder / name).batch
        plan.append(
            f"remove {folder / name} ({'no batch' if batch is None else f'{batch + 1:,} batches'} done)"
        )
    plan.append("keep all that was written; rows that are read again are written again")
    return plan


# Report -----------------------------------------------------------------------------------------------------


def _declare_report(parser: ArgumentParser) -> None:
    _declare(parser)
    parser.add_argument(
        "--out", default=DEFAULT_REPORT, metavar="FILE", help=f"where to write it (default {DEFAULT_REPORT})"
    )


def _report(parser: ArgumentParser, options: Namespace) -> int:
    pipeline, settings = _loaded(parser, options)
    if pipeline.report is None:
        raise CommandError(
            f"{parser.prog}: {options.file} has no report; set pipeline.report = function(settings, path)"
        )
    pipeline.report(settings, options.out)
    print(options.out)
    return Exit.OK


SUBCOMMANDS: dict[str, Subcommand] = {
    "run": Subcommand("run a pipeline until Ctrl+C; it goes on from where it was", _declare_run, _run),
    "status": Subcommand("show what was done last, also while it does not run", _declare_status, _status),
    "reset": Subcommand("forget what was done; what was written stays", _declare_reset, _reset),
    "graph": Subcommand("draw how it hangs together", _declare_graph, _graph),
    "report": Subcommand("write its page", _declare_report, _report),
}
