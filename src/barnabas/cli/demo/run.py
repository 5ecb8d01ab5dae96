"""The demo: services write logs, a collector follows them, and Spark turns them into counts and alerts.

A broker, a log generator, a collector and the log pipeline on Spark, with a live view and finally a page.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from barnabas.base.errors import KafkaError
from barnabas.cli.framework.interrupts import stopping_at_once
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.sync import Admin
from barnabas.spark import session
from barnabas.spark.logs.pipeline import TOPICS, pipeline
from barnabas.spark.logs.report import write_report
from barnabas.spark.logs.results import ResultReader, Results
from barnabas.spark.logs.view import summary, view
from barnabas.spark.pipeline import PipelineError, Running
from barnabas.testing.logs import usual
from barnabas.testing.logs.formats import CONFIG
from barnabas.testing.logs.generator import OWNERS, SERVICES, Generator

PARTITIONS = 2
LINES_PER_SECOND = 160
USUAL_LINES_PER_SECOND = 40
LATE_MS = 4_000
# A service starts a new file at this size, so that the collector must follow a rotation.
ROTATE_AT_BYTES = 512 * 1024
TRIGGER = "3 seconds"
SHOW_INTERVAL_S = 1.0
REPORT_INTERVAL_S = 10.0
STOP_TIMEOUT_S = 60
# However long the demo is not run, the pipeline continues with the record after the last one that it read.
TOPIC_SETTINGS = {"retention.ms": "-1"}
FAILED, INTERRUPTED = 1, 130


class DemoError(Exception):
    """The demo cannot continue; the message is shown to the user."""


class Services(threading.Thread):
    """Services that write lines to their files in real time."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(name="services", daemon=True)
        self.written = 0
        self._folder = folder
        self._generator = Generator(
            seed,
            start_ms=_now_ms(),
            per_second=LINES_PER_SECOND,
            late_ms=LATE_MS,
            settled_lines=LINES_PER_SECOND * 60,
            tag=f"{seed:x}-",
        )
        self._usual = usual.Usual(seed)
        self._usual_ms = _now_ms()
        self._is_ended = threading.Event()

    def run(self) -> None:
        while not self._is_ended.wait(0.1):
            by_service: dict[str, list[bytes]] = {}
            while self._generator.now_ms < _now_ms():
                for line in self._generator.lines(1):
                    by_service.setdefault(line.service, []).append(line.text)
            while self._usual_ms < _now_ms():
                name, text = self._usual.line(self._usual_ms)
                by_service.setdefault(name, []).append(text)
                self._usual_ms += 1000 // USUAL_LINES_PER_SECOND
            for service, texts in by_service.items():
                self._write(self._folder / f"{service}.log", texts)

    def _write(self, path: Path, texts: list[bytes]) -> None:
        with path.open("ab") as file:
            file.write(b"".join(text + b"\n" for text in texts))
            is_long = file.tell() > ROTATE_AT_BYTES
        if is_long:
            path.rename(path.with_suffix(".log.1"))
        self.written += len(texts)

    def end(self) -> None:
        self._is_ended.set()
        self.join()


class Demo:
    """The whole demo."""

    def __init__(self, folder: Path, seconds: float | None) -> None:
        self._folder = folder
        self._seconds = seconds
        self._is_terminal = sys.stdout.isatty()
        self._is_stopped = threading.Event()
        self._shown_lines = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> int:
        with ExitStack() as stack:
            # Errors are reported before everything stops, which may take a while.
            try:
                report = self._run(stack)
            except KeyboardInterrupt:
                self._say("stopping before there was anything to show")
                return INTERRUPTED
            except (DemoError, PipelineError, KafkaError, OSError) as error:
                print(f"barnabas demo: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
                return FAILED
        print(f"report: {report}")
        return 0

    def _run(self, stack: ExitStack) -> Path:
        logs = self._folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with stopping_at_once():
            self._say("starting a broker")
            self._processes["broker"], bootstrap = stack.enter_context(broker(self._folder))
            create_topics(bootstrap)
            count = len(SERVICES) + len(usual.NAMES)
            self._say(f"{count} services write to {logs}, and a collector follows them into the topic logs")
            services = Services(logs, seed=int(time.time()))
            services.start()
            stack.callback(services.end)
            self._processes["collector"] = stack.enter_context(collector(self._folder, bootstrap))
            self._say("starting Spark; this takes a while")
            spark = self._start_spark()
        self._say("starting the queries of the pipeline, one after another")
        # Spark has installed its own handler for Ctrl+C.
        with stopping_at_once():
            running = self._start_pipeline(spark, bootstrap)
        stack.callback(stop, running)
        self._listen()
        reader = stack.enter_context(ResultReader(bootstrap))
        results = self._watch(running, reader, services)
        for line in summary(results):
            print(line)
        report = self._folder / "report.html"
        write_report({"bootstrap": bootstrap}, str(report))
        self._say("stopping; the next run continues where this one ends")
        return report

    def _listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._is_stopped.set())

    def _start_spark(self) -> SparkSession:
        try:
            return session("barnabas-demo", "local[2]", output=str(self._folder / "spark.log"))
        except RuntimeError as error:  # No Java, or it does not start.
            raise DemoError(f"{error} ({self._folder / 'spark.log'} may say more)") from error

    def _start_pipeline(self, spark: SparkSession, bootstrap: str) -> Running:
        config = self._folder / "logs.toml"
        owners = "".join(f'{service} = "{owner}"\n' for service, owner in {**OWNERS, **usual.OWNERS}.items())
        config.write_text(f"{CONFIG}[owners]\n{owners}", "utf-8")
        settings = {
            "config": str(config),
            "id": "id",
            "bootstrap": bootstrap,
            "checkpoint": str(self._folder / "checkpoints"),
            "table": str(self._folder / "table"),
            "lines_per_batch": "100000",
        }
        return pipeline.start(spark, settings, trigger=TRIGGER)

    def _watch(self, running: Running, reader: ResultReader, services: Services) -> Results:
        """Show results until the demo ends."""
        try:
            return self._show_all(running, reader, services)
        except Exception:
            # Whatever the error is: if a process has exited, that is the cause.
            self._check_processes()
            raise

    def _show_all(self, running: Running, reader: ResultReader, services: Services) -> Results:
        end_s = time.monotonic() + self._seconds if self._seconds is not None else float("inf")
        pause_s = (
            SHOW_INTERVAL_S
            if self._is_terminal
            else min(REPORT_INTERVAL_S, self._seconds or REPORT_INTERVAL_S)
        )
        results = reader.read_new()
        while not self._is_stopped.wait(pause_s) and time.monotonic() < end_s:
            self._check_processes()
            running.check()
            results = reader.read_new()
            self._show(results, running, services)
        return results

    def _check_processes(self) -> None:
        for name, process in self._processes.items():
            code = process.poll()
            if code is not None:
                how = f"with {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
                raise DemoError(f"the {name} has exited {how}; run the demo again to continue")

    def _show(self, results: Results, running: Running, services: Services) -> None:
        if not self._is_terminal:
            print(
                f"{services.written:,} lines written in this run; of all runs {results.lines:,} counted, "
                f"{results.bad.total():,} bad",
                flush=True,
            )
            return
        size = shutil.get_terminal_size()
        lines = view(results, running.progress(), services.written, size.columns)[: size.lines - 1]
        up = f"\x1b[{self._shown_lines}A" if self._shown_lines else ""
        blank = [""] * max(0, self._shown_lines - len(lines))
        sys.stdout.write(up + "".join(f"{line}\x1b[K\n" for line in [*lines, *blank]))
        sys.stdout.flush()
        self._shown_lines = len(lines) + len(blank)

    def _say(self, line: str) -> None:
        print(f"• {line}", flush=True)


@contextmanager
def broker(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run `barnabas dev` with persistent data; yields the process and its address."""
    command = [sys.executable, "-m", "barnabas", "dev", "--port", "0", "--data", str(folder / "broker")]
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    with running(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        first = process.stdout.readline().decode()
        if "listens on " not in first:
            raise DemoError("the broker did not start: see above")
        yield process, first.split("listens on ")[1].split()[0]


@contextmanager
def collector(folder: Path, bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `barnabas collect`, which continues where it stopped."""
    command = [sys.executable, "-m", "barnabas", "collect", "--quiet", "--bootstrap-server", bootstrap]
    command += ["--topic", "logs", "--state", str(folder / "collected.json"), str(folder / "logs" / "*.log")]
    with running(command) as process:
        yield process


@contextmanager
def running(
    command: Sequence[str], *, stdout: int | None = None, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that ends with us, and not by a Ctrl+C that is meant for us."""
    process = subprocess.Popen(command, start_new_session=True, stdout=stdout, env=env)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stop(running: Running) -> None:
    # Java may have exited already.
    with suppress(Py4JError, ConnectionError):
        running.stop()


def create_topics(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        there = admin.list_topics()
        new = [NewTopic(topic, PARTITIONS, 1) for topic in TOPICS if topic not in there]
        admin.create_topics(new).raise_first()
        topics = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in TOPICS]
        admin.alter_configs(dict.fromkeys(topics, TOPIC_SETTINGS)).raise_first()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def demo(folder: str, seconds: float | None) -> int:
    """Run it; returns the exit code."""
    try:
        return Demo(Path(folder), seconds).run()
    except KeyboardInterrupt:  # A second Ctrl+C, while everything stops.
        return INTERRUPTED
