"""The shared parts of the Spark rows, without Spark: they must be named, and the contents of their topics."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.batch.build import build
from barnabas.batch.records import Record
from bench import __main__ as program
from bench import spark
from bench.registry import Contender, Row, Workbench, load_rows


def nothing(bench: Workbench) -> Mapping[str, Contender]:
    return {}


def test_rows_that_must_be_named_are_left_out_otherwise() -> None:
    rows = {
        "plain": Row("plain", "Plain", "x", nothing),
        "spark-a": Row("spark-a", "A", "x", nothing, only_by_name=True),
    }
    assert [row.name for row in program.chosen(rows, [])] == ["plain"]
    assert [row.name for row in program.chosen(rows, ["spark-*"])] == ["spark-a"]
    assert [row.name for row in program.chosen(rows, ["*"])] == ["plain", "spark-a"]


def test_every_row_of_spark_must_be_named() -> None:
    rows = load_rows()
    ours = {name for name, row in rows.items() if ".spark_" in row.contenders.__module__}
    assert ours == {name for name in rows if name.startswith("spark-")}
    assert ours == {name for name, row in rows.items() if row.only_by_name}
    goals = {name: (rows[name].goal, rows[name].floor) for name in sorted(ours)}
    assert goals == {
        "spark-read-all": (1.2, 0.9),
        "spark-read-pruned": (2, 1.3),
        "spark-sink": (1.2, 1),
        "spark-sink-exactly-once": (0.9, 0.7),
        "spark-stream-windows": (1.1, 0.9),
        "spark-yahoo": (1, None),
        "spark-yahoo-p99": (1, None),
    }


def test_the_records_that_are_read() -> None:
    now_ms = 1_700_000_000_000
    records = list(spark.sample_records(1_000, now_ms))
    assert {len(one.value or b"") for one in records} == {spark.VALUE_BYTES}
    assert len({one.value for one in records}) == 1_000
    assert len({one.key for one in records}) == spark.KEYS
    times = [one.timestamp for one in records]
    assert times == sorted(times)
    assert times[0] == now_ms - spark.SPREAD_MS
    assert times[-1] < now_ms


def test_batches_are_as_large_as_a_producer_makes_them() -> None:
    record = next(spark.sample_records(1, 0))
    batch = [Record(n, *record[1:]) for n in range(spark.BATCH_RECORDS)]
    assert 15_000 < len(build(batch)) <= 16_384
