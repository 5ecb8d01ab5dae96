"""Sinks into tables of data lakes: batch by batch through Arrow, each batch once.

The rows of a batch come to the driver, so a batch is bounded by the options of its source
(maxOffsetsPerTrigger).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.spark.internals import query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.tables.lakes import Lake

Settings = Mapping[str, str]


def delta(path: str, partition_by: tuple[str, ...]) -> Callable[[Any, Settings], Any]:
    """The writer of a sink; `path` may name settings."""

    def table(settings: Settings) -> Lake:
        from barnabas.spark.pipeline.definition import filled
        from barnabas.tables.lakes import DeltaTable

        return DeltaTable(filled(path, settings, "a Delta table"), partition_by)

    return _writer(table)


def iceberg(name: str, warehouse: str, catalog: Mapping[str, str]) -> Callable[[Any, Settings], Any]:
    """The writer of a sink; all of it may name settings."""

    def table(settings: Settings) -> Lake:
        from barnabas.spark.pipeline.definition import filled
        from barnabas.tables.lakes import IcebergTable

        where = "an Iceberg table"
        properties = {key: filled(value, settings, where) for key, value in catalog.items()}
        return IcebergTable(filled(name, settings, where), filled(warehouse, settings, where), properties)

    return _writer(table)


def _writer(table: Callable[[Settings], Lake]) -> Callable[[Any, Settings], Any]:
    def write(stream: Any, settings: Settings) -> Any:
        return stream.foreachBatch(batch_writer(table(settings)))

    return write


def batch_writer(lake: Lake) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch: int) -> None:
        lake.write(rows.toArrow(), str(query_of(rows)), batch)

    return write
