"""The examples of tests on the test kit pass, as their reader runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PLUGIN = "barnabas.testing.kit.plugin"
# Those of FastStream, Quix Streams and PySpark are run by `make verify`: they want environments of their own, or Java.
CLIENTS = ("aiokafka", "confluent_kafka", "kafka_python")


def test_the_tests_of_the_examples_pass() -> None:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    files = [f"examples/testing/test_{client}.py" for client in CLIENTS]
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", PLUGIN, *files]
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0 and "7 passed" in done.stdout, done.stdout + done.stderr
