"""New random histories of a cluster, decided by our controller and by Apache Kafka's own classes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controller.replication.histories import compared_steps, random_history

PROBE = Path(__file__).parents[1] / "java" / "ControllerHistory.java"
CLASS = "org.apache.kafka.controller.ControllerHistory"
MARK = "history "
# Other seeds than the recorded ones of tests/controller.
SEEDS = range(10_000, 10_600)
LEAST_STEPS = 50_000


@pytest.mark.parametrize("version", ["4.1.0"])
def test_both_controllers_decide_the_same_records(
    version: str, kafka_libs: Callable[[str], Path], tmp_path: Path
) -> None:
    # M-D3, M-D4, M-D9; cluster.md 10 to 14
    libs = f"{kafka_libs(version)}/*"
    subprocess.run(["javac", "-cp", libs, "-d", str(tmp_path), str(PROBE)], check=True, timeout=120)
    histories = [random_history(seed) for seed in SEEDS]
    done = subprocess.run(
        ["java", "-cp", f"{tmp_path}:{libs}", CLASS],
        input="".join(json.dumps(history.steps) + "\n" for history in histories),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    lines = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    assert len(lines) == len(histories)
    compared = sum(
        compared_steps(history.results, json.loads(line))
        for history, line in zip(histories, lines, strict=True)
    )
    assert compared >= LEAST_STEPS
