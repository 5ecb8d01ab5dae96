"""The sink of `format("barnabas")`: rows into topics, in batches and in streams."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType


def batch_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceWriter:
    raise NotImplementedError("writing is not built yet")


def stream_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceStreamWriter:
    raise NotImplementedError("writing is not built yet")
