"""What is used of PySpark beyond its public API: all of it is named in one module, and the installed version has it."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import barnabas.spark
from barnabas.spark.internals import NEWEST, OLDEST, arrow_schema, check_version, source_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = Path(barnabas.spark.__file__).parent
# Where PySpark itself looks for them.
ELSEWHERE = {"worker_daemon.py"}
PUBLIC = re.compile(
    r"pyspark(\.sql(\.(types|functions|datasource|streaming(\.(datasource|query|readwriter|stateful_processor))?))?|\.errors)?"
)


def imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_modules_that_are_not_public_are_imported_in_one_place() -> None:
    found = {
        f"{file.relative_to(PACKAGE)}: {module}"
        for file in PACKAGE.rglob("*.py")
        if file.name not in {"internals.py", *ELSEWHERE}
        for module in imported(file)
        if module.startswith("pyspark") and not PUBLIC.fullmatch(module)
    }
    assert not found


def test_private_attributes_are_used_in_one_place() -> None:
    private = re.compile(r"\b_(?:jdf|jsq|jvm|jsc|jsparkSession|gateway|accumulatorServer)\b")
    users = {file.name for file in PACKAGE.rglob("*.py") if private.search(file.read_text("utf-8"))}
    assert users == {"internals.py"}


def test_the_installed_version_was_tried() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_version(pyspark.__version__)


@pytest.mark.parametrize("version", ["4.1.1", f"{NEWEST[0]}.{NEWEST[1] + 1}.0", "5.0.0.dev1"])
def test_other_versions_are_warned_of(version: str) -> None:
    with pytest.warns(UserWarning, match=f"tried with PySpark {OLDEST[0]}.{OLDEST[1]} to"):
        check_version(version)


def test_streams_tell_their_options(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").option("rowsPerSecond", "1").load().where("value > 1")
    assert [options["rowspersecond"] for options in source_options(frame)] == ["1"]


def test_columns_as_spark_takes_them(spark: SparkSession) -> None:
    schema = spark.sql("SELECT 1 AS n, CURRENT_TIMESTAMP AS at").schema
    assert [str(field.type) for field in arrow_schema(schema)] == ["int32", "timestamp[us, tz=UTC]"]
