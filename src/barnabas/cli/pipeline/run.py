"""A pipeline that runs in the terminal: one live block, or lines in a log; and a clean end."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from barnabas.cli.framework.exits import CommandError, Exit, code_for, one_line
from barnabas.cli.framework.interrupts import Ending, ending_by, stopping_at_once
from barnabas.cli.friendly.output import Column, Printer
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.pipeline import Pipeline, Running
    from barnabas.spark.pipeline.running import Progress

LIVE_S = 1.0
LINE_S = 10.0
POLL_S = 0.5
# A session on a cluster is there by then, unless nobody takes it.
MASTER_SILENT_S = 15.0
OUTPUT = "spark.log"
QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_UP_AND_ERASE = "\x1b[{}F\x1b[J"


def _thousands(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def bytes_text(count: object) -> str:
    """1536 → 1.5 kB."""
    size = float(count) if isinstance(count, int | float) else 0.0
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return ""


COLUMNS = (
    Column("query"),
    Column("batch", is_number=True),
    Column("rows", is_number=True, show=_thousands),
    Column("rows_per_second", is_number=True, title="ROWS/S", show=_thousands),
    Column("lag", is_number=True, show=_thousands),
    Column("batch_ms", is_number=True, title="BATCH MS", show=_thousands),
    Column("state_rows", is_number=True, title="STATE", show=_thousands),
    Column("state_bytes", is_number=True, title="SIZE", show=bytes_text),
    Column("late_rows", is_number=True, title="LATE", show=_thousands),
    Column("watermark"),
)


def run_pipeline(
    program: str, pipeline: Pipeline, settings: dict[str, str], options: Namespace, conf: dict[str, str]
) -> int:
    """Until it ends, fails, or is told to stop."""
    from barnabas.spark import session
    from barnabas.spark.pipeline.starting import AVAILABLE_NOW

    trigger = AVAILABLE_NOW if options.once else options.every
    output = _output(program, settings)
    with stopping_at_once():
        print(f"{pipeline.name}: starting Spark on {options.master}", file=sys.stderr)
        try:
            with _telling_of_silence(pipeline.name, options.master):
                spark = session(f"barnabas pipeline {pipeline.name}", options.master, output=output, **conf)
        except Exception as error:
            raise CommandError(f"{program}: {_no_session(options.master, output, error)}") from error
    _tell_errors_once()
    try:
        # Spark hears Ctrl+C itself once it runs, and would end everything at once.
        with stopping_at_once():
            running = pipeline.start(spark, settings, trigger=trigger, only=options.only)
        with ending_by(running.wake) as ending:
            _watch(running, ending, View(pipeline, sys.stderr))
    finally:
        _end(spark)
    return Exit.OK


@contextlib.contextmanager
def _telling_of_silence(name: str, master: str) -> Iterator[None]:
    """Spark waits for more than a minute and says nothing if somebody else listens at a master's address."""
    from barnabas.spark.masters import STANDALONE

    if not master.startswith(STANDALONE):
        yield
        return
    # Meanwhile our own output is Spark's file.
    terminal = os.dup(2)
    said = f"{name}: {master} has not taken the application yet; Spark waits for about a minute\n"
    before = signal.signal(signal.SIGALRM, lambda *_: os.write(terminal, said.encode()))
    signal.setitimer(signal.ITIMER_REAL, MASTER_SILENT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(terminal)


def _tell_errors_once() -> None:
    """PySpark prints errors of queries as JSON as soon as they are looked at; the user gets them from us."""
    from pyspark.logger import PySparkLogger

    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _no_session(master: str, output: str | None, error: Exception) -> str:
    """Spark refuses a master or an option with an error of Java's or of its own."""
    # Without PySpark there is no Spark to refuse anything.
    if not isinstance(error, ImportError):
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from barnabas.spark.pipeline.faults import java_reason

        if isinstance(error, Py4JError | PySparkException):
            said = java_reason(error)
            look = f"; what Java printed is in {output}" if output else ""
            return f"Spark does not start on {master}: {said}; look at --master and --conf{look}"
    if isinstance(error, ImportError | RuntimeError):
        return " ".join(str(error).split())
    raise error


def _output(program: str, settings: dict[str, str]) -> str | None:
    """Where Spark's own messages go: beside the checkpoints, where that is on this machine."""
    from barnabas.spark.pipeline.checkpoints import local_folder

    folder = local_folder(settings["checkpoint"])
    if folder is None:
        return None
    output = folder / OUTPUT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        output.touch()
    except OSError as error:
        raise CommandError(
            f"{program}: the checkpoint {folder} is no folder that can be written to ({error.strerror}); "
            "choose another by --set checkpoint=FOLDER",
            code_for(error),
        ) from error
    return str(output)


def _end(spark: SparkSession) -> None:
    """Spark may be gone already: a service manager ends all processes at once."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError, ConnectionError):
        spark.stop()


def _watch(running: Running, ending: Ending, view: View) -> None:
    from py4j.protocol import Py4JError

    try:
        running.check()
        while running.is_active and not ending.is_wanted:
            view.show(running)
            running.wait(POLL_S)
            running.check()
        view.show(running, is_last=True)
        if ending.is_wanted:
            view.say("stopping when the batches under way have ended (Ctrl+C again: at once)")
        running.stop()
    except (Py4JError, ConnectionError):
        if not ending.is_wanted:
            raise
    except BaseException:
        view.leave()
        running.stop(0)
        raise
    view.say(
        "stopped; run it again and it goes on from its checkpoint"
        if ending.is_wanted
        else f"done: {sum(one.total_rows for one in view.last):,} rows read"
    )


class View:
    """What is shown of a pipeline that runs."""

    def __init__(self, pipeline: Pipeline, stream: TextIO) -> None:
        self._pipeline = pipeline
        self._stream = stream
        self._is_live = stream.isatty()
        self._next_ns = 0
        self._height = 0
        self.last: list[Progress] = []

    def show(self, running: Running, *, is_last: bool = False) -> None:
        now_ns = SystemClock().monotonic_ns()
        if now_ns < self._next_ns and not is_last:
            return
        self._next_ns = now_ns + int((LIVE_S if self._is_live else LINE_S) * 1e9)
        self.last = running.progress()
        if self._is_live:
            self._block(_table(self.last))
        else:
            for one in self.last:
                self._write(one_line(line_of(one)))

    def _block(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size()
        shown = [line[: size.columns - 1] for line in lines][: size.lines - 2]
        if self._height:
            self._stream.write(_UP_AND_ERASE.format(self._height))
        self._height = len(shown)
        self._stream.write("".join(f"{line}\n" for line in shown))
        self._stream.flush()

    def leave(self) -> None:
        """What is written next stands below."""
        self._height = 0

    def say(self, text: str) -> None:
        self.leave()
        self._write(f"{self._pipeline.name}: {text}")

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


def _table(progress: Sequence[Progress]) -> list[str]:
    text = io.StringIO()
    Printer("table", COLUMNS, name="query", stream=text).all(
        {
            "query": one.name,
            "batch": one.batch,
            "rows": one.total_rows,
            "rows_per_second": round(one.rows_per_second),
            "lag": one.lag,
            "batch_ms": one.batch_ms,
            "state_rows": one.state_rows,
            "state_bytes": one.state_bytes,
            "late_rows": one.late_rows,
            "watermark": one.watermark or None,
        }
        for one in progress
    )
    return text.getvalue().splitlines()


def line_of(one: Progress) -> str:
    """Progress of a query in a log."""
    parts = [
        f"batch {one.batch}",
        f"{one.total_rows:,} rows",
        f"{one.rows_per_second:,.0f} rows/s",
        f"lag {'-' if one.lag is None else f'{one.lag:,}'}",
        f"{one.batch_ms:,} ms",
    ]
    if one.state_rows:
        parts.append(f"state {one.state_rows:,} rows, {bytes_text(one.state_bytes)}")
    if one.late_rows:
        parts.append(f"{one.late_rows:,} late rows dropped")
    if one.watermark:
        parts.append(f"watermark {one.watermark}")
    return f"{one.name}: {', '.join(parts)}"
