"""Delta and Iceberg tables while the driver is killed within batches: every row once, for each of their readers.  M-I4"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import deltalake
import duckdb

from barnabas.tables.lakes import IcebergTable
from tests.verify.spark.support.lake_kills import MOMENTS, NAME
from tests.verify.spark.support.spark_kill_rounds import Rounds
from tools.spark_connector import lake_jars, lake_python

DEATHS = [("driver", moment) for moment in MOMENTS]
# Rows of a table by Apache Spark with the format's own jar, in a process of its own.
SPARK = """
import json, sys
from pyspark.sql import SparkSession

chosen = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[1]")
for name, value in chosen["conf"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = spark.read.format(chosen["format"]).load(chosen["path"])
print("RESULT", json.dumps([row.n for row in rows.collect()]))
spark.stop()
"""


class LakeRounds(Rounds):
    """The rounds of a query into a table."""

    program = "lake_kills.py"
    readers: dict[str, Callable[[], list[int]]]

    def prepare(self) -> None:
        """There is nothing to prepare: the first batch makes the table."""

    def seen(self) -> Counter[int]:
        """What all of the readers see."""
        found = {name: Counter(read()) for name, read in self.readers.items()}
        expected, *others = found.values()
        for name, seen in found.items():
            assert seen == expected, name
        assert others
        return expected


def by_spark(kind: str, path: str, **conf: str) -> list[int]:
    """Apache Spark with the jars of the format's own project."""
    plain = {"spark.ui.enabled": "false", "spark.jars": ",".join(map(str, lake_jars(kind)))}
    chosen = json.dumps({"conf": {**plain, **conf}, "format": kind, "path": path})
    done = subprocess.run(
        [str(lake_python()), "-c", SPARK, chosen], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (result,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    numbers: list[int] = json.loads(result.removeprefix("RESULT "))
    return numbers


def by_duckdb(files: list[str]) -> list[int]:
    """The files of the current snapshot: the extensions of DuckDB for these formats come from the network."""
    rows = duckdb.connect().execute("SELECT n FROM read_parquet(?)", [files]).fetchall()
    return [row[0] for row in rows]


def test_a_delta_table(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    rounds = LakeRounds(tmp_path, "delta", lambda: 0)
    rounds.readers = {
        "deltalake": lambda: deltalake.DeltaTable(path).to_pyarrow_table()["n"].to_pylist(),
        "duckdb": lambda: by_duckdb(deltalake.DeltaTable(path).file_uris()),
        "spark": lambda: by_spark("delta", path, **conf),
    }
    rounds.play(DEATHS)


def test_an_iceberg_table(tmp_path: Path) -> None:
    lake = IcebergTable(NAME, str(tmp_path / "table"))

    def files() -> list[str]:
        tasks = lake.catalog().load_table(f"barnabas.{NAME}").scan().plan_files()
        return [task.file.file_path.removeprefix("file://") for task in tasks]

    def metadata() -> str:
        where: str = lake.catalog().load_table(f"barnabas.{NAME}").metadata_location
        return where

    rounds = LakeRounds(tmp_path, "iceberg", lambda: 0)
    rounds.readers = {
        "pyiceberg": lambda: lake.catalog().load_table(f"barnabas.{NAME}").scan().to_arrow()["n"].to_pylist(),
        "duckdb": lambda: by_duckdb(files()),
        "spark": lambda: by_spark("iceberg", metadata()),
    }
    rounds.play(DEATHS)
