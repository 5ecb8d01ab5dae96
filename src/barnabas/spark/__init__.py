"""barnabas for Apache Spark, through PySpark: a session, sources, a sink and pipelines, without a jar.

    from barnabas.spark import session

    spark = session()
    orders = spark.read.format("barnabas").option("kafka.bootstrap.servers", "localhost:9092") ...

PySpark is an extra (`pip install 'barnabas[spark]'`), so nothing here imports it before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Imported at the end of the module's set-up: the function replaces its module's name in the package.
from barnabas.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def register(spark: SparkSession) -> None:
    """Register the formats `barnabas` and `barnabas-log` with an existing session."""
    from barnabas.spark.data_source import register as register_formats

    register_formats(spark)
