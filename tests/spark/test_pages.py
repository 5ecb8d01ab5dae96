"""What the page about reading in Spark shows, works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from barnabas.spark.log_source import OPTIONS as LOG_OPTIONS
from barnabas.spark.source.options import OPTIONS
from tests.spark.topics import BUSY, MAX_STARTS, create, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAM = re.compile(r"```python\n(.*?)```", re.S)


def follow(program: str, names: dict[str, object]) -> None:
    """Like a user who tries again on a busy machine."""
    for _ in range(MAX_STARTS):
        try:
            exec(program, names)
        except StreamingQueryException as error:
            if BUSY not in str(error):
                raise
        else:
            return
    raise AssertionError(f"the machine is too busy: {MAX_STARTS} starts failed")


def test_the_page_about_reading_works(
    spark: SparkSession,
    bootstrap: str,
    broker_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create(bootstrap, "orders")
    produce(bootstrap, "orders", [b"3 apples", b"1 pear"], key=b"alice")
    page = (DOCS / "how-to" / "read-topics-in-spark.md").read_text("utf-8")
    names: dict[str, object] = {}
    for program in PROGRAM.findall(page):
        # Spark's own processes run where the session was started.
        text = program.replace("localhost:9092", bootstrap)
        text = text.replace("data/data", str(broker_folder / "data" / "data"))
        follow(text.replace("checkpoints/", f"{tmp_path}/"), names)
    assert "3 apples" in capsys.readouterr().out
    assert [tuple(row) for row in spark.table("counts").collect()] == [(b"alice", 2)]


def test_every_option_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "spark-options.md").read_text("utf-8")
    missing = [name for name in (*OPTIONS, *LOG_OPTIONS) if f"`{name}`" not in page]
    assert not missing
