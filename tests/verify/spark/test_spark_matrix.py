"""Row for row the same as Spark's own Kafka connector, on our broker and on Apache Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import start_dev
from tests.verify.conftest import PROJECT
from tests.verify.nodes.apache_broker import apache_broker
from tests.verify.spark.support.spark_matrix import batch_cases, stream_cases
from tools.spark_connector import connector_jars

MATRIX_TIMEOUT_S = 1500
CASES = [name for name, _ in (*batch_cases(), *stream_cases())]
FAILING = {
    "deleted records": "failOnDataLoss",
    "unknown topic": "nobody-made-this",
    "a partition not named": "must name every partition",
    "a time after all is an error": "startingOffsetsByTimestampStrategy",
    "an end not named": "endingOffsetsByTimestamp must name every partition",
    "an end before its start": "is greater than its end",
}
# Spark's own connector passes over these without a word (docs/reference/spark-options.md, how it differs).
FAILING_HERE = {
    "a partition that is not there": "option assign: codec-none-7 is not known",
    "a topic of the brokers' own": "__transaction_state is an internal topic",
}
EMPTY = {"empty", "a time after all", "an end before all", "pattern that begins no name"}
Results = dict[str, dict[str, Any]]


def matrix(bootstrap: str, folder: Path) -> Results:
    out = folder / "matrix.json"
    jars = ",".join(map(str, connector_jars()))
    command = [
        sys.executable,
        "-m",
        "tests.verify.spark.support.spark_matrix",
        bootstrap,
        jars,
        str(folder),
        str(out),
    ]
    done = subprocess.run(
        command,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=MATRIX_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found: Results = json.loads(out.read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def on_barnabas(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("matrix-barnabas")
    process, bootstrap = start_dev(folder, "--override", "log.cleaner.backoff.ms=500")
    try:
        return matrix(bootstrap, folder)
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def on_apache(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("matrix-apache")
    with apache_broker(oracle, "4.1.0", folder / "kafka", {"log.cleaner.backoff.ms": "500"}) as broker:
        return matrix(broker.bootstrap, folder)


def check(result: dict[str, Any], case: str) -> None:
    if case in FAILING_HERE:
        assert result["theirs"] > 0
        assert result["rows"] == -1
        assert FAILING_HERE[case] in result["said"]
        return
    assert not result["difference"], result["difference"]
    if case in FAILING:
        # Both refuse, and ours says what to do.
        assert result["rows"] == -1
        assert FAILING[case] in result["said"]
    else:
        assert (result["rows"] == 0) == (case in EMPTY), result


@pytest.mark.parametrize("case", CASES)
def test_the_rows_are_the_same_on_our_broker(on_barnabas: Results, case: str) -> None:
    """Spark's connector works against our broker, and ours reads what it reads."""
    check(on_barnabas[case], case)


@pytest.mark.parametrize("case", CASES)
def test_the_rows_are_the_same_on_apache_kafka(on_apache: Results, case: str) -> None:
    """Our source works against Apache Kafka, and reads what Spark's connector reads."""
    check(on_apache[case], case)
