"""The formats as registered with Spark: `barnabas`, a source and a sink, and `barnabas-log`.

Spark's worker processes import this module by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BarnabasDataSource(DataSource):
    """`format("barnabas")`: topics of a broker, with the options of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> StructType:
        from barnabas.spark.source import source_schema

        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from barnabas.spark.source import batch_reader

        return batch_reader(schema, self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from barnabas.spark.refused_stream import RefusedStream
        from barnabas.spark.source import stream_reader

        try:
            return stream_reader(schema, self.options)
        except ValueError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.spark.sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from barnabas.spark.sink import stream_writer

        return stream_writer(schema, self.options, overwrite)


class BarnabasLogDataSource(DataSource):
    """`format("barnabas-log")`: topics straight from data folders, without a broker."""

    @classmethod
    def name(cls) -> str:
        return "barnabas-log"

    def schema(self) -> StructType:
        from barnabas.spark.log_source import source_schema

        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from barnabas.spark.log_source import batch_reader

        return batch_reader(schema, self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from barnabas.spark.refused_stream import RefusedStream

        return RefusedStream(ValueError("barnabas-log reads batches only: use spark.read, or a broker"))


def register(spark: SparkSession) -> None:
    """Register our formats with a session."""
    spark.dataSource.register(BarnabasDataSource)
    spark.dataSource.register(BarnabasLogDataSource)
