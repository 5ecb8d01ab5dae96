"""Batches in Delta and Iceberg tables: each once, also after a failure; read back by others.  # M-I4"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest

from barnabas.tables.lakes import DeltaTable, IcebergTable, Lake, SchemaChangeError, compact

Reading = Callable[[], pa.Table]


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lake, Reading]:
    if request.param == "delta":
        path = str(tmp_path / "counts")
        return DeltaTable(path), lambda: pa.table(deltalake.DeltaTable(path).to_pyarrow_table())
    table = IcebergTable("counts", str(tmp_path / "lake"))
    return table, lambda: table.catalog().load_table("barnabas.counts").scan().to_arrow()


def rows(*numbers: int, **more: Any) -> pa.Table:
    count = len(numbers)
    columns: dict[str, Any] = {"n": list(numbers), "text": [f"row {number}" for number in numbers]}
    return pa.table(columns | {name: [value] * count for name, value in more.items()})


def numbers(reading: Reading) -> list[int]:
    return sorted(reading().column("n").to_pylist())


def test_a_batch_is_written_once(lake: tuple[Lake, Reading]) -> None:
    table, reading = lake
    assert table.write(rows(1, 2), "query", 0)
    # The driver was killed after the commit, before Spark knew of it.
    assert not table.write(rows(1, 2), "query", 0)
    assert table.write(rows(3), "query", 1)
    assert not table.write(rows(1, 2), "query", 0)
    # Another query writes to the same table.
    assert table.write(rows(4), "other", 0)
    assert numbers(reading) == [1, 2, 3, 4]


def test_duckdb_reads_it(lake: tuple[Lake, Reading]) -> None:
    table, reading = lake
    table.write(rows(1, 2), "query", 0)
    table.write(rows(3), "query", 1)
    there = reading()
    assert there.num_rows == 3
    found = duckdb.connect().execute("SELECT sum(n)::INT, max(text) FROM there").fetchall()
    assert found == [(6, "row 3")]


def test_new_columns_are_added_and_said(lake: tuple[Lake, Reading], caplog: pytest.LogCaptureFixture) -> None:
    table, reading = lake
    table.write(rows(1), "query", 0)
    with caplog.at_level(logging.WARNING):
        table.write(rows(2, owner="ann"), "query", 1)
    assert "gets new columns: owner" in caplog.text
    # And rows without it still fit.
    table.write(rows(3), "query", 2)
    found = {row["n"]: row["owner"] for row in reading().to_pylist()}
    assert found == {1: None, 2: "ann", 3: None}


def test_a_column_of_another_type_is_refused(lake: tuple[Lake, Reading]) -> None:
    table, reading = lake
    table.write(rows(1), "query", 0)
    other = pa.table({"n": ["two"], "text": ["x"]})
    with pytest.raises(SchemaChangeError, match=r"n is int64 in the table and string in the rows"):
        table.write(other, "query", 1)
    assert numbers(reading) == [1]


def test_small_files_of_iceberg_are_compacted(tmp_path: Path) -> None:
    table = IcebergTable("counts", str(tmp_path / "lake"), compact_every=5)
    for batch in range(5):
        table.write(rows(batch) if batch < 3 else rows(batch, owner="ann"), "query", batch)
    there = table.catalog().load_table("barnabas.counts")
    assert len(list(there.scan().plan_files())) == 1
    found = {row["n"]: row["owner"] for row in there.scan().to_arrow().to_pylist()}
    assert found == {0: None, 1: None, 2: None, 3: "ann", 4: "ann"}
    # Compaction has not forgotten what was written, and what was before it can still be read.
    assert not table.write(rows(4), "query", 4)
    before = there.metadata.snapshots[-2].snapshot_id
    assert there.scan(snapshot_id=before).to_arrow().num_rows == 5
    assert compact(there) == 0


def test_compaction_gives_way_to_other_writers(tmp_path: Path) -> None:
    table = IcebergTable("counts", str(tmp_path / "lake"))
    for batch in range(2):
        table.write(rows(batch), "query", batch)
    seen = table.catalog().load_table("barnabas.counts")
    table.write(rows(2), "query", 2)
    assert compact(seen) == 0
    there = table.catalog().load_table("barnabas.counts")
    assert sorted(there.scan().to_arrow().column("n").to_pylist()) == [0, 1, 2]


def test_a_batch_is_known_when_its_snapshot_has_gone(tmp_path: Path) -> None:
    table = IcebergTable("counts", str(tmp_path / "lake"))
    for query, batch in (("query", 0), ("other", 0)):
        table.write(rows(batch), query, batch)
    there = table.catalog().load_table("barnabas.counts")
    first = there.metadata.snapshots[0].snapshot_id
    there.maintenance.expire_snapshots().by_id(first).commit()
    assert first not in [each.snapshot_id for each in there.refresh().metadata.snapshots]
    assert not table.write(rows(0), "query", 0)


def test_small_files_of_delta_are_compacted(tmp_path: Path) -> None:
    path = str(tmp_path / "counts")
    table = DeltaTable(path, compact_every=5)
    for batch in range(5):
        table.write(rows(batch), "query", batch)
    there = deltalake.DeltaTable(path)
    assert len(there.file_uris()) == 1
    assert sorted(there.to_pyarrow_table().column("n").to_pylist()) == list(range(5))
    # Compaction has not forgotten what was written.
    assert not table.write(rows(4), "query", 4)


def test_a_delta_table_with_partitions(tmp_path: Path) -> None:
    path = str(tmp_path / "counts")
    DeltaTable(path, ("text",)).write(rows(1, 2), "query", 0)
    assert deltalake.DeltaTable(path).metadata().partition_columns == ["text"]
