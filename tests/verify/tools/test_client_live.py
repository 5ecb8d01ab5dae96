"""The client's live tests, which `make test` runs against barnabas, against Apache Kafka: the newest release,
and an older one that announces partitions of transactions and knows no newer groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.live.conftest import BOOTSTRAP_VARIABLE, SETTINGS
from tools.ports import free_oracle_base

PROJECT = Path(__file__).resolve().parents[3]
LIVE = PROJECT / "tests" / "client" / "live"
TIMEOUT_S = 600


# What a version cannot be asked: groups of KIP-848 (a preview in 3.9), brokers in lists of configurations
# (KIP-1142), and an error for a group that does not exist (KIP-1043).
EXPRESSIONS = {
    "4.1.0": "",
    "3.9.1": "not consumer] and not broker_matches and not own_configs and not without_members",
}


@pytest.fixture(scope="module", params=EXPRESSIONS)
def apache(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The version, and where it listens."""
    version: str = request.param
    home = tmp_path_factory.mktemp("client") / "apache"
    base = free_oracle_base()
    given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    done = oracle(version, "up", "--dir", str(home), "--mode", "kraft", "--port", str(base), *given)
    assert done.returncode == 0, done.stderr
    yield version, f"localhost:{base + 1}"
    oracle(version, "down", "--dir", str(home), "--kill")


@pytest.mark.parametrize("file", sorted(path.name for path in LIVE.glob("test_*.py")))
def test_the_same_tests_pass(apache: tuple[str, str], file: str) -> None:
    version, place = apache
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-k", EXPRESSIONS[version], str(LIVE / file)],
        cwd=PROJECT,
        env={**os.environ, BOOTSTRAP_VARIABLE: place},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout[-2000:]
