"""`barnabas pipeline run` as people run it: on a terminal and without one, ended by Ctrl+C and by SIGTERM."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import start_dev
from tests.spark.topics import create, produce

PATIENCE_S = 300
PIPELINE = """
name = "orders"

[sources.lines]
topic = "orders"

[transforms.values]
sql = "SELECT value FROM {lines}"

[sinks.copy]
of = "values"
topic = "copied"
exactly_once = true
"""
BARNABAS = [sys.executable, "-m", "barnabas"]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    process, place = start_dev(tmp_path)
    yield place
    process.terminate()
    assert process.wait(60) == 0
    assert process.stdout is not None
    process.stdout.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "nothing happened for too long"
        time.sleep(0.5)


def test_a_run_ends_cleanly_and_goes_on(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "orders.toml").write_text(PIPELINE, "utf-8")
    create(bootstrap, "orders")
    create(bootstrap, "copied")
    at = ["orders.toml", "--set", f"bootstrap={bootstrap}"]
    run = [*BARNABAS, "pipeline", "run", *at, "--master", "local[2]"]

    def status() -> dict[str, object]:
        command = [*BARNABAS, "pipeline", "status", *at, "-o", "jsonl"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        row: dict[str, object] = json.loads(done.stdout)
        return row

    def has_done(count: int) -> Callable[[], bool]:
        return lambda: status()["offsets"] == {"orders": {"0": count}}

    # On a terminal, by Ctrl+C, which all processes there get.
    produce(bootstrap, "orders", [b"1", b"2"])
    ours, theirs = pty.openpty()
    shown = bytearray()
    first = subprocess.Popen(
        run, cwd=tmp_path, stderr=theirs, stdout=theirs, stdin=theirs, start_new_session=True
    )
    os.close(theirs)
    until(has_done(2))
    assert status()["state"] == "running"
    # One query, one process.
    second = subprocess.run([*run, "--once"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "copy is run by another process" in second.stderr.splitlines()[-1]
    os.killpg(first.pid, signal.SIGINT)
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # The terminal has no writer any more.
        pass
    os.close(ours)
    assert first.wait(PATIENCE_S) == 0
    text = shown.decode()
    assert "ROWS/S" in text
    assert text.rstrip().endswith("orders: stopped; the next run continues from the checkpoint")

    # Without a terminal, by SIGTERM.
    produce(bootstrap, "orders", [b"3"])
    assert (status()["state"], status()["lag"]) == ("stopped", 1)
    with (tmp_path / "log").open("w") as log:
        third = subprocess.Popen(run, cwd=tmp_path, stderr=log)
    until(has_done(3))
    third.terminate()
    assert third.wait(PATIENCE_S) == 0
    lines = (tmp_path / "log").read_text("utf-8").splitlines()
    assert lines[-1] == "orders: stopped; the next run continues from the checkpoint"
    assert any(line.startswith("copy: batch ") for line in lines)
    # Each record once.
    command = [*BARNABAS, "consume", "copied", "-b", bootstrap, "-o", "jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [json.loads(line)["value"] for line in done.stdout.splitlines()] == ["1", "2", "3"]
