"""The tests of examples/testing on frameworks that want an environment of their own, and on Spark."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.verify.stream_apps.environments import example_python

PROJECT = Path(__file__).resolve().parents[3]
PLUGIN = "barnabas.testing.kit.plugin"


@pytest.mark.parametrize("framework", ["faststream", "quix_streams", "pyspark"])
def test_the_tests_of_an_example_pass(framework: str) -> None:
    python = example_python(framework)
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(PROJECT / "src"),
    }
    environment.pop("PYTEST_ADDOPTS", None)
    path = f"examples/testing/test_{framework}.py"
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-o", "addopts=", "-o", "filterwarnings=", "-p", PLUGIN, path],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
