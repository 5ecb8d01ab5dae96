"""The source of `format("barnabas")`: topics as rows, in batches and in streams."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType


def source_schema(options: Mapping[str, str]) -> StructType:
    raise NotImplementedError("reading is not built yet")


def batch_reader(schema: StructType, options: Mapping[str, str]) -> DataSourceReader:
    raise NotImplementedError("reading is not built yet")


def stream_reader(schema: StructType, options: Mapping[str, str]) -> DataSourceStreamReader:
    raise NotImplementedError("reading is not built yet")
