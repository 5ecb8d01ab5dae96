"""The friendly commands, `explain` among them, against Apache Kafka: the same tests that `make test` runs
against barnabas.

Left out are those that look at our broker's files or register a broker that is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.friendly.conftest import ELSEWHERE_VARIABLE, SETTINGS
from tests.verify.nodes.broker_node import VERSION
from tools.ports import free_oracle_base

PROJECT = Path(__file__).resolve().parents[3]
FRIENDLY = PROJECT / "tests" / "cli" / "friendly"
TIMEOUT_S = 600
LEFT_OUT = 4


@pytest.fixture(scope="module")
def apache(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("friendly") / "apache"
    base = free_oracle_base()
    given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    done = oracle(VERSION, "up", "--dir", str(home), "--mode", "kraft", "--port", str(base), *given)
    assert done.returncode == 0, done.stderr
    yield f"localhost:{base + 1}"
    oracle(VERSION, "down", "--dir", str(home), "--kill")


def test_the_same_tests_pass(apache: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", str(FRIENDLY)],
        cwd=PROJECT,
        env={**os.environ, ELSEWHERE_VARIABLE: apache},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert done.stdout.count("SKIPPED") == LEFT_OUT, done.stdout[-2000:]
