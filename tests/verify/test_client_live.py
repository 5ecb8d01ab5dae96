"""The client's live tests, which `make test` runs against barnabas, against Apache Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.live.conftest import BOOTSTRAP_VARIABLE, SETTINGS
from tests.verify.broker_node import VERSION
from tools.ports import free_oracle_base

PROJECT = Path(__file__).resolve().parents[2]
LIVE = PROJECT / "tests" / "client" / "live"
# Not where others look for theirs.
PORT_BASES = range(25_050, 60_000, 211)
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def apache(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where Apache Kafka listens."""
    home = tmp_path_factory.mktemp("client") / "apache"
    base = free_oracle_base(PORT_BASES)
    given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    done = oracle(VERSION, "up", "--dir", str(home), "--mode", "kraft", "--port", str(base), *given)
    assert done.returncode == 0, done.stderr
    yield f"localhost:{base + 1}"
    oracle(VERSION, "down", "--dir", str(home), "--kill")


@pytest.mark.parametrize("file", sorted(path.name for path in LIVE.glob("test_*.py")))
def test_the_same_tests_pass(apache: str, file: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", str(LIVE / file)],
        cwd=PROJECT,
        env={**os.environ, BOOTSTRAP_VARIABLE: apache},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout[-2000:]
