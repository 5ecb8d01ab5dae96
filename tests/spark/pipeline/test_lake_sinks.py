"""Sinks into Delta and Iceberg tables.  # M-I4"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from barnabas.spark.pipeline import Pipeline, PipelineError
from barnabas.spark.pipeline.lake_sinks import batch_writer
from barnabas.spark.pipeline.toml_file import pipeline_of
from barnabas.tables.lakes import DeltaTable, IcebergTable
from tests.spark.topics import create, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Rows:
    """A batch of a streaming query."""

    def __init__(self, query: str, *numbers: int) -> None:
        self.sparkSession = self.sparkContext = self
        self._query, self._numbers = query, numbers

    def getLocalProperty(self, _: str) -> str:  # noqa: N802 - Spark's name
        return self._query

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.table({"n": list(self._numbers)})


class Stream:
    """A stream writer that runs its function at once."""

    def foreachBatch(self, function: Any) -> Stream:  # noqa: N802 - Spark's name
        self.function = function
        return self


def test_a_repeated_batch_is_found_in_the_table(tmp_path: Path) -> None:
    write: Any = batch_writer(DeltaTable(str(tmp_path / "t")))
    for rows, batch in ((Rows("q", 1), 0), (Rows("q", 2), 1), (Rows("q", 2), 1)):
        write(rows, batch)
    assert sorted(deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["n"].to_pylist()) == [1, 2]


def test_paths_and_names_are_filled_from_settings(tmp_path: Path) -> None:
    pipeline = Pipeline("p", settings={"folder": str(tmp_path)})
    pipeline.to_delta("d", of="x", path="{folder}/d")
    pipeline.to_iceberg("i", of="x", table="counts", warehouse="{folder}/lake")
    for sink in pipeline.sinks.values():
        assert sink.write is not None
        stream: Any = sink.write(Stream(), pipeline.settings)
        stream.function(Rows("q", 5), 0)
    assert DeltaTable(str(tmp_path / "d")).write(pa.table({"n": [5]}), "q", 0) is False
    assert IcebergTable("counts", str(tmp_path / "lake")).write(pa.table({"n": [5]}), "q", 0) is False
    assert pipeline.sinks["d"].place == "Delta table {folder}/d, exactly once"


def test_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    text = 'name = "p"\n[sources.x]\ntopic = "x"\n[sinks.d]\nof = "x"\ndelta = "tables/d"\n'
    path.write_text(f'{text}[sinks.i]\nof = "x"\niceberg = "c"\n', "utf-8")
    assert {name: sink.place for name, sink in pipeline_of(path).sinks.items()} == {
        "d": "Delta table tables/d, exactly once",
        "i": "Iceberg table c, exactly once",
    }
    path.write_text(f'{text}mode = "update"\n', "utf-8")
    with pytest.raises(PipelineError, match=r"sinks\.d\.mode: a sink with a Delta or Iceberg table"):
        pipeline_of(path)


def test_a_topic_becomes_tables_and_a_lost_commit_changes_nothing(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, [b"1", b"2", b"3"])
    pipeline = Pipeline("lakes", settings={"bootstrap": bootstrap}, checkpoint=str(tmp_path / "checkpoints"))

    @pipeline.source
    def lines(spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
        options = {"kafka.bootstrap.servers": settings["bootstrap"], "subscribe": topic}
        reader = spark.readStream.format("barnabas").options(**options)
        rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "2").load()
        return rows.selectExpr("CAST(CAST(value AS STRING) AS INT) AS n", "timestamp")

    pipeline.to_delta("delta", of=lines, path=str(tmp_path / "delta"))
    pipeline.to_iceberg("iceberg", of=lines, table="numbers", warehouse=str(tmp_path / "lake"))
    lake = IcebergTable("numbers", str(tmp_path / "lake"))
    for expected in ([1, 2, 3], [1, 2, 3, 4]):
        pipeline.start(spark, trigger="available-now").await_end()
        in_delta = deltalake.DeltaTable(str(tmp_path / "delta")).to_pyarrow_table()
        in_iceberg = lake.catalog().load_table("barnabas.numbers").scan().to_arrow()
        assert sorted(in_delta["n"].to_pylist()) == sorted(in_iceberg["n"].to_pylist()) == expected
        produce(bootstrap, topic, [b"4"])
        # Spark has not noted that the last batch is done: it comes again.
        for sink in ("delta", "iceberg"):
            commits = tmp_path / "checkpoints" / sink / "commits"
            last = max(
                (path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
            )
            last.unlink()
            (commits / f".{last.name}.crc").unlink(missing_ok=True)
