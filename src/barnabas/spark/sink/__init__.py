"""The sink: `df.write.format("barnabas")` and `df.writeStream.format("barnabas")`.

The two entry points for Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from barnabas.spark.sink.tasks import Work


def batch_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceWriter:
    """For `df.write`; topics can only be appended to."""
    from barnabas.spark.sink.writers import AtLeastOnceWriter, ExactlyOnceWriter

    if overwrite:
        raise ValueError("Save mode Overwrite not allowed for Kafka. Use mode('append') to write to a topic.")
    work = _work(schema, options)
    return ExactlyOnceWriter(work) if work.options.is_exactly_once else AtLeastOnceWriter(work)


def stream_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceStreamWriter:
    """For `df.writeStream`, append or complete; Spark itself refuses update mode for Python formats."""
    from barnabas.spark.sink.writers import AtLeastOnceStreamWriter, ExactlyOnceStreamWriter

    work = _work(schema, options)
    if work.options.batch_id is not None:
        raise ValueError("Option 'batchId' is for batch writes: a streaming query counts its batches itself")
    return ExactlyOnceStreamWriter(work) if work.options.is_exactly_once else AtLeastOnceStreamWriter(work)


def _work(schema: StructType, options: Mapping[str, str]) -> Work:
    from barnabas.spark.sink.columns import sink_columns
    from barnabas.spark.sink.options import sink_options
    from barnabas.spark.sink.tasks import Work

    checked = sink_options(options)
    return Work(checked, sink_columns(schema, checked.topic))
