"""The source of `format("barnabas")`: topics as rows, in batches and in streams."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from barnabas.spark.source.options import batch_options, includes_headers, stream_options

# Spark plans a query with filters in a process that runs this module if and only if the setting
# spark.sql.python.filterPushdown.enabled is on; elsewhere a reader that takes filters is rejected.
_FILTERING_PLANNER = "pyspark.sql.worker.data_source_pushdown_filters"


def source_schema(options: Mapping[str, str]) -> StructType:
    """Return the columns; a schema given by the user selects among them."""
    from barnabas.spark.source.rows import schema_with

    return schema_with(includes_headers(options))


def batch_reader(schema: StructType, options: Mapping[str, str]) -> DataSourceReader:
    from barnabas.spark.source.batch import BatchReader, FilteringBatchReader
    from barnabas.spark.source.rows import check_schema

    check_schema(schema)
    kind = FilteringBatchReader if _takes_filters() else BatchReader
    return kind(schema, batch_options(options))


def stream_reader(schema: StructType, options: Mapping[str, str]) -> DataSourceStreamReader:
    from barnabas.spark.source.rows import check_schema
    from barnabas.spark.source.stream import StreamReader

    check_schema(schema)
    return StreamReader(schema, stream_options(options))


def _takes_filters() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _FILTERING_PLANNER in sys.modules or getattr(main, "name", "") == _FILTERING_PLANNER
