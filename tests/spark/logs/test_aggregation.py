"""Log aggregation from files to alerts: M-I3, in small.

Only what leads to alerts runs as streams here, and the rest as batches: each query costs seconds.  `make
verify` runs all of it as streams, with a million lines and kills.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client.sync import Admin
from barnabas.logging import JsonFormatter
from barnabas.spark.logs import queries
from barnabas.spark.logs import truth as true
from barnabas.spark.logs.formats import FORMATS, Event, Syslog
from barnabas.spark.logs.generator import Shares, Truth
from tests.clients.conftest import start_dev
from tests.spark.logs import whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = 12_000
START_MS = 1_790_000_000_000
PYTHON_LEVELS = {"DEBUG": "DEBUG", "INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR", "CRITICAL": "ERROR"}
OTHER_LEVELS = {"TRACE": "DEBUG", "NOTICE": "INFO", "warn": "WARN", "Fatal": "ERROR", "LOUD": None}


def compare_batches(spark: SparkSession, bootstrap: str, truth: Truth) -> None:
    """Dead letters, and requests with their errors."""
    topic = spark.read.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    parsed = queries.parsed(topic.option("subscribe", "logs").load()).cache()
    assert sorted(bytes(row["value"]) for row in queries.bad(parsed).collect()) == sorted(truth.bad)
    events = parsed.where("problem IS NULL").dropDuplicates(["service", "id"])
    joined = queries.failures(events).select("trace", "request", "error").collect()
    assert sorted(tuple(row) for row in joined) == sorted(true.failures(truth.events))
    parsed.unpersist()


def committed(bootstrap: str, group: str) -> dict[str, int]:
    """How many records of each topic the group has done with."""
    results: dict[str, int] = {}
    with Admin(bootstrap_servers=bootstrap) as admin:
        for partition, done in admin.list_consumer_group_offsets(group)[group].values_by_key.items():
            assert done is not None
            results[partition.topic] = results.get(partition.topic, 0) + done.offset
    return results


def test_everything_that_comes_out_is_true(spark: SparkSession, tmp_path: Path) -> None:
    process, bootstrap = start_dev(tmp_path, "--override", "log.retention.ms=-1")
    try:
        whole.create_topics(bootstrap)
        # Nothing is too late for the first batch, so there is nothing that is.
        shares = Shares(hopeless=0.0)
        truth = whole.write_and_collect(
            bootstrap, tmp_path / "logs", 3, LINES, START_MS, per_second=10, shares=shares
        )
        # Two batches: the second finds what the first one left in the state.
        chosen = whole.settings(bootstrap, tmp_path, LINES * 6 // 10)
        whole.run(spark, chosen, (["counts"], ["alerts"]))
        expected = whole.compare_counts(bootstrap, truth)
        assert true.alerts(expected, whole.WINDOW_MS)
        compare_batches(spark, bootstrap, truth)
        assert committed(bootstrap, "pipeline-logs-counts") == {"logs": truth.lines}
        assert committed(bootstrap, "pipeline-logs-alerts").keys() == {"logs.counts"}
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_levels_of_other_libraries_are_known(spark: SparkSession) -> None:
    """What Python's logging writes through our handler, and what services write in every format."""
    lines: list[tuple[str, str | None]] = []
    for name, known in PYTHON_LEVELS.items():
        record = logging.makeLogRecord({"levelno": getattr(logging, name), "levelname": name, "id": "1"})
        lines.append((JsonFormatter("shop").format(record), known))
    for name, level in OTHER_LEVELS.items():
        event = Event(START_MS, "shop", "1", name, "note", "a1", 200, 12, "GET /")
        lines += [(one.write(event).decode(), level) for one in FORMATS if one is not Syslog]
        line = Syslog.write(event._replace(level="INFO")).decode()
        lines.append((line.replace('"INFO"', f'"{name}"'), level))
    found = queries.parsed(spark.createDataFrame(lines, "value string, level string")).collect()
    outcomes = {row.value: (row.level, row.problem) for row in found}
    assert outcomes == {
        line: (level, None if level is not None else "no known level") for line, level in lines
    }
