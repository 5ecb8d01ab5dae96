"""Log aggregation with a million lines, and kills in the middle: everything that comes out is true.  M-I3."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.logs import whole
from tools.raw_broker import BrokerProcess

PROJECT = Path(__file__).resolve().parents[3]
LINES = 1_000_000
LINES_PER_BATCH = 120_000
START_MS = 1_790_000_000_000
PATIENCE_S = 1_800

# The pipeline in a process of its own, so that it can be killed.
RUN = """
import json, sys
from barnabas.spark import session
from tests.spark.logs import whole

chosen = json.loads(sys.argv[1])
spark = session("logs", "local[2]", output=sys.argv[2])
whole.run(spark, chosen, whole.STEPS[:2])
# Counts are few: small batches, so that kills and the ends of batches fall between windows of one service.
whole.run(spark, {**chosen, "lines_per_batch": "100"}, whole.STEPS[2:])
print("RESULT", json.dumps(whole.table_rows(spark, chosen)))
spark.stop()
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--override", "log.retention.ms=-1") as process:
        yield process


def start(chosen: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    import json

    command = [sys.executable, "-c", RUN, json.dumps(chosen), str(folder / "spark.log")]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True)


def kill_when_batches_are_done(process: subprocess.Popen[str], commits: Path, count: int) -> None:
    """kill -9 of the driver with its JVM and workers, in the middle of what comes after so many batches."""
    end_s = time.monotonic() + PATIENCE_S
    while batches_of(commits) < count:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < end_s
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def batches_of(commits: Path) -> int:
    return len(list(commits.glob("[0-9]*")))


def test_a_million_lines_and_five_kills(broker: BrokerProcess, tmp_path: Path) -> None:
    import json

    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    whole.create_topics(bootstrap)
    truth = whole.write_and_collect(bootstrap, tmp_path / "logs", 7, LINES, START_MS)
    assert len(truth.bad) > LINES // 200
    assert truth.twice > LINES // 200
    assert truth.late > LINES // 200
    assert truth.hopeless > 0
    chosen = whole.settings(bootstrap, tmp_path, LINES_PER_BATCH)
    for query, more in (("parsed", 3), ("counts", 2), ("failures", 3), ("alerts", 2), ("table", 2)):
        commits = tmp_path / "checkpoints" / query / "commits"
        done = batches_of(commits)
        kill_when_batches_are_done(start(chosen, tmp_path), commits, done + more)
    process = start(chosen, tmp_path)
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, (tmp_path / "spark.log").read_text("utf-8")[-3000:]
    (result,) = [line for line in printed.splitlines() if line.startswith("RESULT ")]
    rows = [tuple(row) for row in json.loads(result.removeprefix("RESULT "))]
    whole.compare(bootstrap, truth, rows)
