"""`barnabas pipeline`: run a pipeline of Spark queries, show its progress, draw it, reset it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, one_line
from barnabas.cli.framework.subcommands import Subcommand
from barnabas.cli.friendly.framework import add_output, add_plan, confirm_plan, friendly_tool
from barnabas.cli.friendly.output import NOTHING, Column, Printer

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.spark.pipeline import Pipeline

T = TypeVar("T")

PROGRAM = "barnabas pipeline"
DEFAULT_MASTER = "local[*]"
DEFAULT_REPORT = "report.html"


def _offsets_text(offsets: object) -> str:
    """`orders-0:12`."""
    topics = offsets if isinstance(offsets, dict) else {}
    texts = [
        f"{topic}-{partition}:{offset}"
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    ]
    return ",".join(texts) or NOTHING


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
    return friendly_tool(PROGRAM, "Run and monitor pipelines of Spark queries.", SUBCOMMANDS).run(arguments)


def _declare(parser: ArgumentParser) -> None:
    """The arguments of all subcommands."""
    add = parser.add_argument
    add("file", metavar="FILE", help="the pipeline: a .py or .toml file, or the name of a module")
    add(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting of the pipeline, such as bootstrap or checkpoint; may be repeated",
    )


def _load(parser: ArgumentParser, options: Namespace) -> tuple[Pipeline, dict[str, str]]:
    """The pipeline and its settings."""
    from barnabas.spark.pipeline import load

    overrides = _pairs(parser, "--set", options.settings)
    pipeline = _reporting_errors(parser, lambda: load(options.file))
    return pipeline, _reporting_errors(parser, lambda: pipeline.settings_with(overrides))


def _check_only(parser: ArgumentParser, pipeline: Pipeline, options: Namespace) -> None:
    for name in options.only:
        if name not in pipeline.sinks:
            parser.error(f"{pipeline.name} has no sink {name}; it has {', '.join(pipeline.sinks)}")


def _pairs(parser: ArgumentParser, flag: str, given: Sequence[str]) -> dict[str, str]:
    for pair in given:
        if "=" not in pair:
            parser.error(f"{flag} {pair}: give KEY=VALUE")
    return dict(pair.split("=", 1) for pair in given)


def _reporting_errors(parser: ArgumentParser, operation: Callable[[], T]) -> T:
    """Turns a PipelineError into one line."""
    from barnabas.spark.pipeline import PipelineError

    try:
        return operation()
    except PipelineError as error:
        raise CommandError(f"{parser.prog}: {error}") from error


def _checkpoint(parser: ArgumentParser, settings: dict[str, str]) -> Path:
    from barnabas.spark.pipeline.checkpoints import local_folder

    folder = local_folder(settings["checkpoint"])
    if folder is None:
        raise CommandError(
            f"{parser.prog}: the checkpoint {settings['checkpoint']} is not a local folder; "
            "use the tools of its file system"
        )
    return folder


# Run --------------------------------------------------------------------------------------------------------


def _declare_run(parser: ArgumentParser) -> None:
    _declare(parser)
    add = parser.add_argument
    add(
        "--master",
        default=DEFAULT_MASTER,
        help=f"the Spark master (default {DEFAULT_MASTER}: in this process)",
    )
    add(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark option, such as spark.executor.memory=2g; may be repeated",
    )
    add(
        "--every",
        metavar="INTERVAL",
        help='trigger interval, such as "5 seconds" (default: start a batch when the previous one ends)',
    )
    add("--once", action="store_true", help="process the available data, and exit")
    add(
        "--only",
        action="append",
        default=[],
        metavar="SINK",
        help="run only the query of this sink; may be repeated",
    )


def _run(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.pipeline.run import run_pipeline

    if options.once and options.every:
        parser.error("--once and --every cannot be combined")
    conf = _pairs(parser, "--conf", options.conf)
    _check_master(parser, options.master)
    pipeline, settings = _load(parser, options)
    _check_only(parser, pipeline, options)
    return _reporting_errors(parser, lambda: run_pipeline(parser.prog, pipeline, settings, options, conf))


def _check_master(parser: ArgumentParser, master: str) -> None:
    from barnabas.spark.masters import MasterError, check

    try:
        check(master)
    except MasterError as error:
        parser.error(f"--master {error}")


# Describe ---------------------------------------------------------------------------------------------------


def _declare_status(parser: ArgumentParser) -> None:
    _declare(parser)
    add_output(parser)


def _status(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.pipeline.status import status_rows

    pipeline, settings = _load(parser, options)
    folder = _checkpoint(parser, settings)
    rows, problem = _reporting_errors(parser, lambda: status_rows(pipeline, settings, folder))
    Printer(options.output, STATUS, name="sink").all(rows)
    if problem:
        sys.stdout.flush()
        print(one_line(f"{parser.prog}: the lag is unknown: {problem}"), file=sys.stderr)
    return Exit.OK


def _declare_graph(parser: ArgumentParser) -> None:
    _declare(parser)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--dot", action="store_true", help="as Graphviz: | dot -Tsvg")
    kinds.add_argument("--mermaid", action="store_true", help="as Mermaid, for Markdown pages")


def _graph(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.spark.pipeline import graph

    pipeline, settings = _load(parser, options)
    draw = graph.dot if options.dot else graph.mermaid if options.mermaid else graph.drawing
    for line in _reporting_errors(parser, lambda: draw(pipeline, settings)):
        print(one_line(line))
    return Exit.OK


# Reset ------------------------------------------------------------------------------------------------------


def _declare_reset(parser: ArgumentParser) -> None:
    _declare(parser)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="SINK",
        help="only the query of this sink; may be repeated",
    )
    add_plan(parser)


def _reset(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.spark.pipeline.checkpoints import forget

    pipeline, settings = _load(parser, options)
    folder = _checkpoint(parser, settings)
    _check_only(parser, pipeline, options)
    sinks = [name for name in options.only or pipeline.sinks if (folder / name).is_dir()]
    manual_steps = _reporting_errors(parser, lambda: _manual_steps(pipeline, settings, sinks))
    plan = _reporting_errors(parser, lambda: _reset_plan(parser, pipeline, folder, sinks)) + manual_steps
    if not sinks:
        print(f"{pipeline.name}: there is no checkpoint in {folder}; nothing to do", file=sys.stderr)
        return Exit.OK
    if confirm_plan(parser.prog, options, plan):
        _reporting_errors(parser, lambda: forget(folder, sinks))
        when = "once that folder is moved" if manual_steps else "at its next run"
        print(f"{pipeline.name}: starts from the beginning {when}", file=sys.stderr)
    return Exit.OK


def _manual_steps(pipeline: Pipeline, settings: dict[str, str], sinks: Sequence[str]) -> list[str]:
    """Steps left to the user: Spark skips batches that the file list of a file sink already contains."""
    from barnabas.spark.pipeline.starting import FILE_LIST, listed_files

    paths = [(name, listed_files(pipeline, pipeline.sinks[name], settings)) for name in sinks]
    return [
        f"then move {path} away, or give {name} another path: {name} is refused while {path / FILE_LIST} "
        "lists the earlier batches, because Spark would skip that many"
        for name, path in paths
        if path is not None
    ]


def _reset_plan(parser: ArgumentParser, pipeline: Pipeline, folder: Path, sinks: Sequence[str]) -> list[str]:
    from barnabas.spark.pipeline.checkpoints import is_running, read_done, read_identity

    identity = read_identity(folder)
    if identity is not None and identity.pipeline != pipeline.name:
        raise CommandError(
            f"{parser.prog}: {folder} is the checkpoint of the pipeline {identity.pipeline}, not of "
            f"{pipeline.name}; nothing was done"
        )
    plan = []
    for name in sinks:
        if is_running(folder, name):
            raise CommandError(f"{parser.prog}: {name} is running; stop it first (nothing was done)")
        batch = read_done(folder / name).batch
        plan.append(
            f"remove {folder / name} ({'no batch' if batch is None else f'{batch + 1:,} batches'} done)"
        )
    plan.append("keep the output; rows that are read again are written again")
    return plan


# Report -----------------------------------------------------------------------------------------------------


def _declare_report(parser: ArgumentParser) -> None:
    _declare(parser)
    parser.add_argument(
        "--out", default=DEFAULT_REPORT, metavar="FILE", help=f"output file (default {DEFAULT_REPORT})"
    )


def _report(parser: ArgumentParser, options: Namespace) -> int:
    pipeline, settings = _load(parser, options)
    if pipeline.report is not None:
        pipeline.report(settings, options.out)
    else:
        from barnabas.cli.pipeline.report import write_report

        folder = _checkpoint(parser, settings)
        _reporting_errors(parser, lambda: write_report(pipeline, settings, folder, options.out))
    print(options.out)
    return Exit.OK


# Test -------------------------------------------------------------------------------------------------------


def _declare_test(parser: ArgumentParser) -> None:
    _declare(parser)
    parser.add_argument("cases", metavar="CASES", help="a TOML file of rows in and rows out")


def _test(parser: ArgumentParser, options: Namespace) -> int:
    from pathlib import Path

    from barnabas.cli.pipeline.run import test_pipeline
    from barnabas.spark.pipeline.trying import read_cases

    pipeline, settings = _load(parser, options)
    cases = _reporting_errors(parser, lambda: read_cases(Path(options.cases)))
    return _reporting_errors(parser, lambda: test_pipeline(parser.prog, pipeline, settings, cases))


SUBCOMMANDS: dict[str, Subcommand] = {
    "run": Subcommand("run a pipeline until Ctrl+C, continuing from its checkpoint", _declare_run, _run),
    "status": Subcommand(
        "show the progress, whether or not the pipeline is running", _declare_status, _status
    ),
    "reset": Subcommand("delete the checkpoints; the output stays", _declare_reset, _reset),
    "graph": Subcommand("draw the graph of the pipeline", _declare_graph, _graph),
    "test": Subcommand("try the pipeline with rows, without a broker", _declare_test, _test),
    "report": Subcommand("write the report of the pipeline", _declare_report, _report),
}
