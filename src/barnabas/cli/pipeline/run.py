"""Runs a pipeline in the foreground: a live table or log lines, and a clean shutdown."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from barnabas.cli.framework.exits import CommandError, Exit, code_for, one_line
from barnabas.cli.framework.interrupts import Shutdown, shutting_down_on_signal, stopping_at_once
from barnabas.cli.friendly.output import Column, Printer
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.pipeline import Pipeline, Running
    from barnabas.spark.pipeline.running import Progress
    from barnabas.spark.pipeline.trying import Case

LIVE_S = 1.0
LINE_S = 10.0
POLL_S = 0.5
# A session on a cluster takes less than this, unless the master does not respond.
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


def _not_met(expectations: object) -> str:
    """`amount 3/100`."""
    if not isinstance(expectations, dict):
        return ""
    return ", ".join(f"{name} {counts.failed:,}/{counts.rows:,}" for name, counts in expectations.items())


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
    Column("not_met", show=_not_met),
)


def test_pipeline(program: str, pipeline: Pipeline, settings: dict[str, str], cases: Sequence[Case]) -> int:
    """Prints a line for each case, and what is wrong with its rows."""
    from barnabas.spark import session
    from barnabas.spark.pipeline.faults import reason
    from barnabas.spark.pipeline.trying import differences, rows_of

    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, OUTPUT)
        try:
            spark = session(f"barnabas pipeline test {pipeline.name}", "local[1]", output=output)
        except Exception as error:
            raise CommandError(f"{program}: {_no_session('local[1]', None, error)}") from error
        from pyspark.errors import PySparkException

        failed = 0
        try:
            for case in cases:
                try:
                    wrong = differences(case, rows_of(pipeline, spark, case.of, case.given, settings))
                except PySparkException as error:
                    wrong = [reason(error)]
                failed += bool(wrong)
                print(f"{case.name}: {'FAILED' if wrong else 'ok'}", *wrong, sep="\n  ", flush=True)
        finally:
            _stop_spark(spark)
    return Exit.FAILED if failed else Exit.OK


def run_pipeline(
    program: str, pipeline: Pipeline, settings: dict[str, str], options: Namespace, conf: dict[str, str]
) -> int:
    """Runs until the pipeline ends, fails or is stopped."""
    from barnabas.spark import session
    from barnabas.spark.pipeline.starting import AVAILABLE_NOW

    trigger = AVAILABLE_NOW if options.once else options.every
    output = _output(program, settings)
    with stopping_at_once():
        print(f"{pipeline.name}: starting Spark on {options.master}", file=sys.stderr)
        try:
            with _reporting_silent_master(pipeline.name, options.master):
                spark = session(f"barnabas pipeline {pipeline.name}", options.master, output=output, **conf)
        except Exception as error:
            raise CommandError(f"{program}: {_no_session(options.master, output, error)}") from error
    _silence_query_loggers()
    try:
        # Once Spark runs it handles Ctrl+C itself, and would stop everything at once.
        with stopping_at_once():
            running = pipeline.start(spark, settings, trigger=trigger, only=options.only)
        with shutting_down_on_signal(running.wake) as shutdown:
            _watch(running, shutdown, View(pipeline, sys.stderr))
    finally:
        _stop_spark(spark)
    complaint = pipeline.complaint() if pipeline.complaint is not None else None
    if complaint is not None:
        print(f"{program}: {one_line(complaint)}", file=sys.stderr)
        return Exit.FAILED
    return Exit.OK


@contextlib.contextmanager
def _reporting_silent_master(name: str, master: str) -> Iterator[None]:
    """Spark waits silently for more than a minute if another program listens on the address of the master."""
    from barnabas.spark.masters import STANDALONE

    if not master.startswith(STANDALONE):
        yield
        return
    # Meanwhile stderr is redirected to Spark's file.
    terminal = os.dup(2)
    message = f"{name}: {master} has not accepted the application yet; Spark waits for about a minute\n"
    before = signal.signal(signal.SIGALRM, lambda *_: os.write(terminal, message.encode()))
    signal.setitimer(signal.ITIMER_REAL, MASTER_SILENT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(terminal)


def _silence_query_loggers() -> None:
    """PySpark logs errors of queries as JSON whenever they are read; this command prints them itself."""
    from pyspark.logger import PySparkLogger

    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _no_session(master: str, output: str | None, error: Exception) -> str:
    """The message for a session that could not be created: Spark raises Java errors and its own."""
    # Without PySpark these modules do not exist.
    if not isinstance(error, ImportError):
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from barnabas.spark.pipeline.faults import java_reason

        if isinstance(error, Py4JError | PySparkException):
            reason = java_reason(error)
            hint = f"; the output of Java is in {output}" if output else ""
            return f"Spark does not start on {master}: {reason}; check --master and --conf{hint}"
    if isinstance(error, ImportError | RuntimeError):
        return " ".join(str(error).split())
    raise error


def _output(program: str, settings: dict[str, str]) -> str | None:
    """The file for Spark's messages: next to the checkpoints, if they are local."""
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
            f"{program}: the checkpoint {folder} is not a writable folder ({error.strerror}); "
            "choose another with --set checkpoint=FOLDER",
            code_for(error),
        ) from error
    return str(output)


def _stop_spark(spark: SparkSession) -> None:
    """Spark may have exited already: a service manager stops all processes at once."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError, ConnectionError):
        spark.stop()


def _watch(running: Running, shutdown: Shutdown, view: View) -> None:
    from py4j.protocol import Py4JError

    try:
        running.check()
        while running.is_active and not shutdown.is_requested:
            view.show(running)
            running.wait(POLL_S)
            running.check()
        view.show(running, is_last=True)
        if shutdown.is_requested:
            view.print("stopping after the current batches (Ctrl+C again to stop at once)")
        running.stop()
    except (Py4JError, ConnectionError):
        if not shutdown.is_requested:
            raise
    except BaseException:
        view.release()
        running.stop(0)
        raise
    view.print(
        "stopped; the next run continues from the checkpoint"
        if shutdown.is_requested
        else f"done: {sum(query.total_rows for query in view.last):,} rows read"
    )


class View:
    """The output for a running pipeline."""

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
            for query in self.last:
                self._write(one_line(line_of(query)))

    def _block(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size()
        shown = [line[: size.columns - 1] for line in lines][: size.lines - 2]
        if self._height:
            self._stream.write(_UP_AND_ERASE.format(self._height))
        self._height = len(shown)
        self._stream.write("".join(f"{line}\n" for line in shown))
        self._stream.flush()

    def release(self) -> None:
        """Further output goes below the table."""
        self._height = 0

    def print(self, text: str) -> None:
        self.release()
        self._write(f"{self._pipeline.name}: {text}")

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


def _table(progress: Sequence[Progress]) -> list[str]:
    text = io.StringIO()
    Printer("table", COLUMNS, name="query", stream=text).all(
        {
            "query": query.name,
            "batch": query.batch,
            "rows": query.total_rows,
            "rows_per_second": round(query.rows_per_second),
            "lag": query.lag,
            "batch_ms": query.batch_ms,
            "state_rows": query.state_rows,
            "state_bytes": query.state_bytes,
            "late_rows": query.late_rows,
            "watermark": query.watermark or None,
            "not_met": query.expectations or None,
        }
        for query in progress
    )
    return text.getvalue().splitlines()


def line_of(query: Progress) -> str:
    """The progress of a query as a log line."""
    parts = [
        f"batch {query.batch}",
        f"{query.total_rows:,} rows",
        f"{query.rows_per_second:,.0f} rows/s",
        f"lag {'-' if query.lag is None else f'{query.lag:,}'}",
        f"{query.batch_ms:,} ms",
    ]
    if query.state_rows:
        parts.append(f"state {query.state_rows:,} rows, {bytes_text(query.state_bytes)}")
    if query.late_rows:
        parts.append(f"{query.late_rows:,} late rows dropped")
    for name, counts in query.expectations.items():
        parts.append(f"{name} not met by {counts.failed:,} of {counts.rows:,}")
    if query.is_working:
        parts.append(f"batch {query.batch + 1} under way")
    if query.watermark:
        parts.append(f"watermark {query.watermark}")
    return f"{query.name}: {', '.join(parts)}"
