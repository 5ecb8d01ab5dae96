"""A broker as people run it, in a process of its own, for the clients that people use."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_START_PATIENCE_S = 120
_numbers = itertools.count(1)


def start_dev(folder: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """`barnabas dev` on a free port; the process and where it listens."""
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "dev",
        "--port",
        "0",
        "--data",
        str(folder / "data"),
        *options,
    ]
    with (folder / "stderr.txt").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    assert process.stdout is not None
    # A start that hangs must end the tests, not hang them.
    watch = threading.Timer(_START_PATIENCE_S, process.kill)
    watch.start()
    first = process.stdout.readline()
    watch.cancel()
    if "listens on" not in first:
        process.wait()
        pytest.fail(f"the broker did not start: {first}{(folder / 'stderr.txt').read_text('utf-8')}")
    return process, first.split("listens on ")[1].split()[0]


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker is."""
    folder = tmp_path_factory.mktemp("clients")
    process, place = start_dev(folder)
    yield place
    process.terminate()
    assert process.wait(_START_PATIENCE_S) == 0
    assert process.stdout is not None
    process.stdout.close()
    # A fault on the server's side fails the tests even if no client noticed.
    faults = [line for line in (folder / "stderr.txt").read_text("utf-8").splitlines() if " ERROR " in line]
    assert not faults, "\n".join(faults)


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """An unused topic name."""

    def name() -> str:
        return f"{request.node.originalname.replace('test_', '')[:60]}-{os.getpid()}-{next(_numbers)}"

    return name


@pytest.fixture
def topic(fresh_name: Callable[[], str]) -> str:
    return fresh_name()
