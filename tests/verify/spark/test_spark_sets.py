"""Public sets of log lines: the pipeline on Spark says of every line what `barnabas logs parse` prints.  M-I3.

The sets are beside the oracle, or in the folder that BARNABAS_LOG_SETS names.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.collect import Collector, FileSource
from barnabas.logs.files import Tally, parse
from barnabas.logs.records import UNKNOWN
from tests.spark.conftest import spark  # noqa: F401
from tests.spark.logs import whole
from tests.verify.logs.test_public_sets import FOLDER, SETS
from tools.raw_broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


async def collect(bootstrap: str, folder: Path) -> int:
    """The lines of each file in order, in one partition."""
    source = FileSource([str(folder / "*.log")], until_end=True)
    collector = Collector("logs", [source], {"bootstrap.servers": bootstrap}, key_by_origin=True)
    await collector.run()
    return collector.lines_written


def printed(path: Path) -> list[tuple[Any, ...]]:
    return [
        (record.time, record.level, record.service, record.message, template, record.format, record.lines)
        for record, template in parse(str(path), Tally())
        if record.format != UNKNOWN
    ]


def run(spark: SparkSession, folder: Path, sets: Path) -> dict[str, list[tuple[Any, ...]]]:  # noqa: F811
    """What the pipeline says of each line, with its offset."""
    with BrokerProcess(folder, "--override", "log.retention.ms=-1") as process:
        bootstrap = f"{process.address[0]}:{process.address[1]}"
        whole.create_topics(bootstrap)
        lines = asyncio.run(collect(bootstrap, sets))
        chosen = {**whole.settings(bootstrap, folder, lines), "config": "", "id": ""}
        whole.run(spark, chosen, (["parsed"],))
        values = whole.read(bootstrap, "logs.parsed")
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in map(json.loads, values):
        told = (
            row[name] for name in ("time", "level", "component", "message", "template", "format", "lines")
        )
        found[Path(row["source"]).stem].append((int(row["position"].rpartition("-")[2]), *told))
    return found


def test_lines_come_out_as_logs_parse_prints_them(spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    if SETS == ["none"]:
        pytest.skip(f"there are no log sets in {FOLDER}; set BARNABAS_LOG_SETS")
    sets = tmp_path / "sets"
    sets.mkdir()
    for name in SETS:
        # As if they had been written now: times without a year are settled alike.
        shutil.copyfile(FOLDER / f"{name}.log", sets / f"{name}.log")
    found = run(spark, tmp_path, sets)
    assert set(found) == set(SETS)
    for name in SETS:
        rows = [row[1:] for row in sorted(found[name])]
        different = [
            pair for pair in zip(rows, printed(sets / f"{name}.log"), strict=True) if pair[0] != pair[1]
        ]
        assert not different, (name, len(different), different[:3])
