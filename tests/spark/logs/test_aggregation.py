"""Log aggregation from files to alerts: M-I3, in small; `make verify` does it with a million lines and kills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.collect import follower
from barnabas.spark.logs.generator import Shares
from tests.clients.conftest import start_dev
from tests.spark.logs import whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = 20_000
START_MS = 1_790_000_000_000


def test_everything_that_comes_out_is_true(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files are read in turn, a piece each: such pieces and batches that time does not jump too far between
    # them (with a million lines they need not be small).
    monkeypatch.setattr(follower, "CHUNK_BYTES", 4096)
    logs = tmp_path / "logs"
    logs.mkdir()
    # Nothing is too late for the first batch, so there is nothing that is.
    truth = whole.write_logs(logs, 3, LINES, START_MS, per_second=10.0, shares=Shares(hopeless=0.0))
    process, bootstrap = start_dev(tmp_path, "--override", "log.retention.ms=-1")
    try:
        whole.create_topics(bootstrap)
        assert whole.collect(bootstrap, logs, **{"batch.size": 16_384}) == truth.lines
        # Two batches: the second finds what the first one left in the state.
        chosen = whole.settings(bootstrap, tmp_path, LINES * 6 // 10)
        whole.run(spark, chosen)
        whole.compare(bootstrap, truth, whole.table_rows(spark, chosen))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
