"""Checks against real Apache Kafka.  They run by `make verify`; nothing here may skip.

The oracle is a script that fetches and runs Apache Kafka; `BARNABAS_ORACLE` says where it is.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("BARNABAS_ORACLE", PROJECT.parent / "shared" / "oracle" / "kafka"))
GOLDEN = Path(os.environ.get("BARNABAS_GOLDEN", PROJECT.parent / "shared" / "golden"))
TOOL_TIMEOUT_S = 300

Completed = subprocess.CompletedProcess[str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not ORACLE.exists():
        reason = f"Apache Kafka's oracle is not at {ORACLE}; set BARNABAS_ORACLE to run these checks"
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def call_oracle(version: str, *args: str, cwd: Path | None = None, stdin: str | None = None) -> Completed:
    return subprocess.run(
        [str(ORACLE), "-k", version, *args],
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        cwd=cwd,
        input=stdin,
        check=False,
    )


@pytest.fixture(scope="session")
def oracle() -> Callable[..., Completed]:
    """`oracle("4.1.0", "up", "--dir", …)`: any call of the oracle's script."""
    return call_oracle


@pytest.fixture(scope="session")
def kafka_libs() -> Callable[[str], Path]:
    """The folder with the jars of one version of Apache Kafka."""

    def find(version: str) -> Path:
        done = call_oracle(version, "fetch")
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip().splitlines()[-1])

    return find


@pytest.fixture(scope="session")
def run_java() -> Callable[..., str]:
    """Run one Java file on Apache Kafka's own classes; its standard output."""

    def run(version: str, java_file: Path, *args: str, cwd: Path | None = None) -> str:
        done = call_oracle(version, "java", str(java_file), *args, cwd=cwd)
        assert done.returncode == 0, f"{java_file.name} ended with {done.returncode}:\n{done.stderr[-4000:]}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def kafka_tool() -> Callable[..., Completed]:
    """Run one of Apache Kafka's command line tools."""

    def run(version: str, name: str, *args: str, cwd: Path | None = None) -> Completed:
        return call_oracle(version, "tool", name, *args, cwd=cwd)

    return run


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of Apache Kafka's recorded behaviour."""
    return GOLDEN
