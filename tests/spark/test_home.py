"""Spark's Python processes on one machine: what they import, and how they serve tasks."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.spark import home, worker_process

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Set first, so that it is put back whatever is set later.
    monkeypatch.setenv(home.VARIABLE, "")
    monkeypatch.delenv(home.VARIABLE)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    return tmp_path


def test_a_session_on_one_machine_has_a_home_without_the_zipped_python(cache: Path) -> None:
    home.choose(cache, is_local=True)
    chosen = Path(os.environ[home.VARIABLE])
    assert chosen.is_relative_to(cache)
    assert (chosen / "bin" / "spark-submit").is_file()
    assert list((chosen / "jars").glob("spark-core*.jar"))
    assert not (chosen / "python").exists()
    home.choose(cache, is_local=True)
    assert os.environ[home.VARIABLE] == str(chosen)


def test_a_home_that_the_user_has_set_is_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(home.VARIABLE, "/opt/spark")
    for is_local in (True, False):
        home.choose(cache, is_local=is_local)
        assert os.environ[home.VARIABLE] == "/opt/spark"


def test_a_cluster_gets_the_zip(cache: Path) -> None:
    """Its machines may have no PySpark: Spark sends them the one that is zipped."""
    home.choose(cache, is_local=True)
    home.choose(cache, is_local=False)
    assert home.VARIABLE not in os.environ


def test_another_python_gets_the_zip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    home.choose(cache, is_local=True)
    assert home.VARIABLE not in os.environ


def test_without_a_place_for_links_spark_stays_where_it_is(cache: Path) -> None:
    (cache / "spark").write_text("a file where a folder should be", "utf-8")
    home.choose(cache, is_local=True)
    assert home.VARIABLE not in os.environ


def test_processes_import_installed_modules_and_respond_at_once(spark: SparkSession) -> None:
    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyarrow
        import pyspark

        for _ in batches:
            pass
        main = sys.modules["__main__"]
        yield pyarrow.RecordBatch.from_pydict(
            {
                "pyspark": [pyspark.__file__],
                "daemon": [f"{main.__spec__ and main.__spec__.name} {main.daemon.worker.__module__}"],
            }
        )

    [row] = spark.range(0, 1, 1, 1).mapInArrow(report, "pyspark string, daemon string").collect()
    assert ".zip" not in row["pyspark"]
    assert row["daemon"] == "barnabas.spark.worker_daemon __main__"


def test_imports_leave_the_sight_of_the_garbage_collector_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(worker_process, "_is_settled", False)
    worker_process.settle()
    worker_process.settle()
    assert frozen == [True]
