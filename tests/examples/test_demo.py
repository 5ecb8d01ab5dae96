"""`barnabas demo` on a terminal, without Spark: logs flow, a view is drawn, Ctrl+C ends it with a report.

`make verify` runs it with Spark: on a terminal, without one, again from its checkpoint, and without Java.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.cli.demo import run as demo
from barnabas.cli.demo.command import FOLDER
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.sync import Admin
from barnabas.spark.java import NoJavaError
from barnabas.spark.logs.results import Results, Totals
from barnabas.spark.pipeline import PipelineError
from tests.examples.terminal import PROJECT, check_on_a_terminal
from tools.raw_broker import BrokerProcess


def test_on_a_terminal_it_draws_over_itself_until_ctrl_c(tmp_path: Path) -> None:
    """M-I3."""
    lines = check_on_a_terminal("tests.examples.demo_without_spark", tmp_path)
    # The pipeline is not left running.
    assert "stopped" in lines


# What goes wrong
# ------------------------------------------------------------------------------------------------


# Ends with 3 as soon as the file is there.
PROCESS = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
raise SystemExit(3)
"""


class Stage:
    """The demo with stand-ins for everything slow; each can be made to fail."""

    def __init__(self) -> None:
        self.stopped: list[str] = []
        self.start_spark: Callable[[], None] = lambda: None
        self.start_pipeline: Callable[[], None] = lambda: None
        self.check: Callable[[], None] = lambda: None
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @contextmanager
    def process(self, name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
        with demo.running([sys.executable, "-c", PROCESS, str(folder / name)]) as started:
            self.processes[name] = started
            yield started

    def stop(self) -> None:
        self.stopped.append("pipeline")

    def run(self, folder: Path) -> int:
        return demo.Demo(folder, 600).run()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage()

    @contextmanager
    def broker(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        with stage.process("broker", folder) as started:
            yield started, "127.0.0.1:1"
        stage.stopped.append("broker")

    class Reader:
        def __init__(self, _bootstrap: str) -> None: ...

        def __enter__(self) -> Reader:
            return self

        def __exit__(self, *_: object) -> None: ...

        def read_new(self) -> None: ...

    def start_pipeline(*_: object) -> Stage:
        stage.start_pipeline()
        return stage

    monkeypatch.setattr(demo, "broker", broker)
    monkeypatch.setattr(demo, "collector", lambda folder, _: stage.process("collector", folder))
    monkeypatch.setattr(demo, "create_topics", lambda _: None)
    monkeypatch.setattr(demo, "ResultReader", Reader)
    monkeypatch.setattr(demo, "REPORT_INTERVAL_S", 0.01)
    monkeypatch.setattr(demo, "session", lambda *_, **__: stage.start_spark())
    monkeypatch.setattr(demo.Demo, "_start_pipeline", start_pipeline)
    monkeypatch.setattr(demo.Demo, "_show", lambda *_: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield stage
    for number, handler in before.items():
        signal.signal(number, handler)


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("start_spark", NoJavaError("Spark needs Java")),
        ("start_pipeline", PipelineError("the checkpoint belongs to another pipeline")),
        ("check", PipelineError("logs: counts has failed")),
    ],
)
def test_an_error_is_one_line(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, error: Exception
) -> None:
    setattr(stage, where, raising(error))
    assert stage.run(tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"barnabas demo: {error}")
    assert "broker" in stage.stopped


@pytest.mark.parametrize("where", ["start_spark", "start_pipeline"])
def test_ctrl_c_while_it_starts_ends_everything(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    setattr(stage, where, ctrl_c)
    assert stage.run(tmp_path) == 130
    output = capsys.readouterr()
    assert output.err == ""
    assert "stopping before" in output.out
    assert stage.stopped == ["broker"]


@pytest.mark.parametrize("name", ["broker", "collector"])
@pytest.mark.parametrize("is_told_otherwise", [False, True])
def test_a_process_that_has_ended_ends_the_demo(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, is_told_otherwise: bool
) -> None:
    def check() -> None:
        (tmp_path / name).touch()
        stage.processes[name].wait(120)
        # Whatever needs the process may be the first to fail.
        if is_told_otherwise:
            raise PipelineError("nobody answers")

    stage.check = check
    assert stage.run(tmp_path) == 1
    assert (
        capsys.readouterr().err
        == f"barnabas demo: the {name} has exited with 3; run the demo again to continue\n"
    )
    assert stage.stopped == ["pipeline", "broker"]


def test_its_topics_keep_their_records_between_runs(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        place = f"{broker.address[0]}:{broker.address[1]}"
        with Admin(bootstrap_servers=place) as admin:
            admin.create_topics([NewTopic("logs", demo.PARTITIONS, 1)]).raise_first()
            demo.create_topics(place)
            asked = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in vars(demo)["TOPICS"]]
            found = admin.describe_configs(asked, names=["retention.ms"])
            assert [config["retention.ms"].value for config in found.values()] == ["-1"] * len(asked)


def test_make_clean_removes_what_it_leaves() -> None:
    output = subprocess.run(
        ["make", "-n", "clean"], cwd=PROJECT, capture_output=True, text=True, check=True, timeout=120
    )
    removed = [line.split() for line in output.stdout.splitlines() if line.startswith("rm -rf ")]
    assert any(FOLDER in words for words in removed)


def test_lines_without_a_terminal_distinguish_this_run_from_all_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results(totals={"cart": Totals("shop", lines=51_682)}, bad=Counter({"no time": 3}))
    services = SimpleNamespace(written=14_354)
    demo.Demo(tmp_path, 1)._show(results, None, services)  # type: ignore[arg-type]
    output = capsys.readouterr().out
    assert output == "14,354 lines written in this run; of all runs 51,682 counted, 3 bad\n"
