"""Batches of rows into Delta and Iceberg tables, each once.

A batch is one commit, and the commit itself says which batch of which query it holds: a batch that comes
again after a failure is found there and not written again.  Delta keeps that in its transaction identifiers,
Iceberg in the properties of the table.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

ADVICE = "tables need deltalake and pyiceberg: pip install 'barnabas[tables]'"
QUERY, BATCH = "barnabas.query", "barnabas.batch"
# Small files are rewritten into large ones after this many batches.
COMPACT_EVERY = 50
# Files below the first size are rewritten, up to the second one at a time (in memory).
SMALL_BYTES, COMPACTED_BYTES = 32 << 20, 512 << 20


class SchemaChangeError(ValueError):
    """A column has another type than in the table."""


class Lake(Protocol):
    """A table that batches are appended to."""

    def write(self, rows: pa.Table, query: str, batch: int) -> bool:
        """Append the rows of a batch; returns whether they were not there already."""
        ...


class DeltaTable:
    """A Delta table in a folder or an object store."""

    def __init__(
        self, path: str, partition_by: tuple[str, ...] = (), compact_every: int = COMPACT_EVERY
    ) -> None:
        self._path = path
        self._partition_by = list(partition_by)
        self._compact_every = compact_every

    def write(self, rows: pa.Table, query: str, batch: int) -> bool:
        deltalake = _imported("deltalake")
        is_there = deltalake.DeltaTable.is_deltatable(self._path)
        table = deltalake.DeltaTable(self._path) if is_there else None
        if table is not None:
            written = table.transaction_version(query)
            if written is not None and written >= batch:
                return False
            _check_columns(_arrow_schema(table.schema().to_arrow()), rows.schema, self._path)
        mark = deltalake.Transaction(app_id=query, version=batch)
        deltalake.write_deltalake(
            self._path,
            rows,
            mode="append",
            schema_mode="merge",
            partition_by=self._partition_by or None,
            commit_properties=deltalake.CommitProperties(app_transactions=[mark]),
        )
        if self._compact_every and batch % self._compact_every == self._compact_every - 1:
            deltalake.DeltaTable(self._path).optimize.compact()
        return True


class IcebergTable:
    """An Iceberg table of a catalog; by default one in SQLite, in the folder of the tables."""

    def __init__(
        self,
        name: str,
        warehouse: str,
        properties: Mapping[str, str] | None = None,
        compact_every: int = COMPACT_EVERY,
    ) -> None:
        self._name = name if "." in name else f"barnabas.{name}"
        self._warehouse = warehouse
        self._properties = dict(properties or {})
        self._compact_every = compact_every

    def write(self, rows: pa.Table, query: str, batch: int) -> bool:
        table = self.table(rows.schema)
        if self._has(table, query, batch):
            return False
        there = table.schema().as_arrow()
        _check_columns(there, rows.schema, self._name)
        if set(rows.schema.names) - set(there.names):
            with table.update_schema() as update:
                update.union_by_name(rows.schema)
        with table.transaction() as changes:
            changes.append(rows, snapshot_properties={QUERY: query, BATCH: str(batch)})
            changes.set_properties({f"{BATCH}.{query}": str(batch)})
        if self._compact_every and batch % self._compact_every == self._compact_every - 1:
            compact(table)
        return True

    @staticmethod
    def _has(table: Any, query: str, batch: int) -> bool:
        """Whether the table has this batch, or a later one of the query."""
        if int(table.properties.get(f"{BATCH}.{query}", -1)) >= batch:
            return True
        # Tables that were written before their properties said it.
        summaries = (snapshot.summary or {} for snapshot in reversed(table.metadata.snapshots))
        mine = (summary for summary in summaries if summary.get(QUERY) == query)
        return any(int(summary[BATCH] or -1) >= batch for summary in mine)

    def table(self, schema: pa.Schema) -> Any:
        """The table, made with this schema if it is not there."""
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        return catalog.create_table_if_not_exists(self._name, schema)

    def catalog(self) -> Any:
        _imported("pyiceberg")
        from pyiceberg.catalog import load_catalog

        if self._properties:
            return load_catalog("barnabas", **self._properties)
        folder = Path(self._warehouse).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{folder / 'catalog.db'}"
        return load_catalog("barnabas", type="sql", uri=uri, warehouse=folder.as_uri())


def compact(table: Any) -> int:
    """Rewrite the small files of an Iceberg table into large ones, in one commit; returns how many.
    If somebody else changes the table meanwhile, they stay as they are."""
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files

    small: list[Any] = []
    size = 0
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < SMALL_BYTES and not task.delete_files and size < COMPACTED_BYTES:
            small.append(task)
            size += task.file.file_size_in_bytes
    if len(small) < 2:
        return 0
    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(small)
    try:
        with table.transaction() as changes, changes.update_snapshot().overwrite() as update:
            for task in small:
                update.delete_data_file(task.file)
            for file in _dataframe_to_data_files(changes.table_metadata, rows, table.io):
                update.append_data_file(file)
    except (CommitFailedException, ValidationException) as error:
        logger.info("small files are left for later: %s", error)
        return 0
    return len(small)


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(ADVICE) from error


def _arrow_schema(schema: Any) -> pa.Schema:
    """deltalake has an Arrow of its own, with the same interface to others."""
    import pyarrow as pa

    return schema if isinstance(schema, pa.Schema) else pa.schema(schema)


def _check_columns(there: pa.Schema, new: pa.Schema, place: str) -> None:
    """New columns are added and said; a column of another type is refused, before anything is written."""
    known = {field.name: field.type for field in there}
    added = [field.name for field in new if field.name not in known]
    if added:
        logger.warning("%s gets new columns: %s; rows before have NULL there", place, ", ".join(added))
    for field in new:
        before = known.get(field.name)
        if before is not None and not _is_same(before, field.type):
            raise SchemaChangeError(
                f"{place}: {field.name} is {before} in the table and {field.type} in the rows: cast it in "
                "the pipeline, or write to another table"
            )


def _is_same(there: pa.DataType, new: pa.DataType) -> bool:
    """Tables have one kind of text and of bytes, and times in microseconds."""
    return _plain(there) == _plain(new)


def _plain(kind: pa.DataType) -> str:
    text = str(kind).replace("large_", "").replace("_view", "")
    return "timestamp, with a zone" if text.startswith("timestamp") and "tz" in text else text
