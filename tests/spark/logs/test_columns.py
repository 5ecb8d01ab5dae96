"""The columns of log aggregation's topics are written down once."""

from __future__ import annotations

from dataclasses import fields

from barnabas.spark.logs.columns import ALERTS, COUNTS, schema
from barnabas.spark.logs.results import Alert, WindowCount


def test_readers_have_the_columns_that_the_queries_write() -> None:
    # The rate of errors is computed by the reader, so that it is right for sums too.
    assert [field.name for field in fields(WindowCount)] == [name for name in COUNTS if name != "error_rate"]
    assert {field.name for field in fields(Alert)} == set(ALERTS)


def test_a_schema_is_what_spark_reads() -> None:
    assert schema(ALERTS) == (
        "service string, owner string, rule string, state string, since timestamp, value double, error_rate double"
    )
