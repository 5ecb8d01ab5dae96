"""Log aggregation from files to alerts: M-I3, in small.

Only what leads to alerts runs as streams here, and the rest as batches: each query costs seconds.  `make
verify` runs all of it as streams, with a million lines and kills.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client.sync import Admin
from barnabas.logs.files import Tally, parse
from barnabas.spark.logs import queries
from barnabas.spark.logs.learning import Learned
from barnabas.testing.logs import truth as true
from barnabas.testing.logs.generator import Shares
from tests.clients.conftest import start_dev
from tests.spark.logs import whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = 12_000
START_MS = 1_790_000_000_000
SETS = {
    "python": [f"2024-05-01 10:00:0{n},123 - app - INFO - user {n} is in" for n in range(9)],
    "access": [
        f'1.2.3.{n} - - [01/May/2024:10:00:00 +0000] "GET /{n} HTTP/1.1" {200 + n} 5 "-" "a"'
        for n in range(9)
    ],
    "trace": [
        "2024-05-01 10:00:00,123 - app - ERROR - failed with code=7",
        "Traceback (most recent call last):",
        "ValueError: x",
        '2024-05-01 10:00:00,123 - app - INFO - a "quoted" \\ text',
    ],
}


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
        whole.run(spark, chosen, (["parsed"], ["counts"], ["alerts"]))
        expected = whole.compare_counts(bootstrap, truth)
        assert true.alerts(expected, whole.WINDOW_MS)
        bad = [(value,) for value in whole.read(bootstrap, "logs.bad")]
        whole.assert_same("bad lines", bad, [(line,) for line in truth.bad], key=1)
        assert whole.read(bootstrap, "logs.late") == []
        assert committed(bootstrap, "pipeline-logs-parsed") == {"logs": truth.lines}
        assert committed(bootstrap, "pipeline-logs-alerts").keys() == {"logs.counts"}
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_public_sets_come_out_as_logs_parse_prints_them(spark: SparkSession, tmp_path: Path) -> None:
    """The same rules: time, level, message, template, fields and format of every line are the same."""
    lines = [line for name in ("python", "access", "trace") for line in SETS[name]]
    rows, expected = [], []
    for name, texts in SETS.items():
        path = tmp_path / f"{name}.log"
        path.write_text("\n".join(texts), "utf-8")
        rows += [(text, name, number) for number, text in enumerate(texts)]
        for record, template in parse(str(path), Tally()):
            expected.append((name, record.time, record.level, record.message, template, record.format))
    assert len(rows) == len(lines)
    frame = spark.createDataFrame(rows, "line string, name string, number long").selectExpr(
        "CAST(line AS BINARY) AS value", "'logs' AS topic", "0 AS partition", "number AS offset",
        "current_timestamp() AS timestamp",
        "array(struct('origin' AS key, CAST(name AS BINARY) AS value)) AS headers",
    )  # fmt: skip
    parsed = queries.parsed(frame.coalesce(1)).cache()
    shapes = sorted((row.source, row.shape) for row in parsed.select("source", "shape").distinct().collect())
    records = queries.with_templates(parsed, Learned().learn(shapes))
    found = [
        (row.source, row.time, row.level, row.message, row.template, row.format)
        for row in queries.lines_of(records).collect()
    ]
    parsed.unpersist()
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_lines_that_came_too_late_are_kept(spark: SparkSession) -> None:
    rows = [("in time", 80), ("too late", 79), ("newer", 300)]
    frame = spark.createDataFrame(rows, "json string, at_ms long")
    assert [row.json for row in queries.late(frame, 100, 20).collect()] == ["too late"]
    assert queries.late(frame, None, 20).count() == 0
