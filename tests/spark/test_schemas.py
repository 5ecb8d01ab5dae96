"""Values with schemas of a registry: there and back, evolved, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.client.serialization import Avro, SchemaRegistry
from barnabas.spark.pipeline import PipelineError
from barnabas.spark.pipeline.toml_file import pipeline_of
from barnabas.spark.schemas import SchemaError, decoded, encoded
from barnabas.spark.schemas.types import UnsupportedTypeError, avro_of, json_of, spark_of_avro, spark_of_json
from tests.registry import Registry, registry_running
from tests.spark.topics import create

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2026, 11, 18, 12, 30, 1, 123456, UTC)
COLUMNS = (
    "n INT, big BIGINT NOT NULL, rate DOUBLE, ok BOOLEAN, raw BINARY, name STRING, day DATE, at TIMESTAMP, "
    "price DECIMAL(10,2), tags ARRAY<STRING>, more MAP<STRING, INT>, inner STRUCT<a: INT, b: STRING>"
)
ROWS: list[tuple[Any, ...]] = [
    (1, 2**40, 0.5, True, b"x", "\u00fc", date(2026, 1, 2), AT, Decimal("12.34"), ["a"], {"k": 7}, (1, "b")),
    (None, 0, None, None, None, None, None, None, None, None, None, None),
]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with registry_running() as registry:
        yield registry


def test_avro_there_and_back(spark: SparkSession, registry: Registry) -> None:
    place = f"http://{registry.place}"
    rows = spark.createDataFrame(ROWS, COLUMNS)
    records = encoded(rows, place, "orders-value").cache()
    assert records.columns == ["value"]
    by_client = Avro(registry=SchemaRegistry(place)).deserialize("orders", bytes(records.collect()[0].value))
    assert (by_client["big"], by_client["price"], by_client["inner"]) == (
        2**40,
        Decimal("12.34"),
        {"a": 1, "b": "b"},
    )
    again = decoded(records, place, "orders-value")
    assert again.select("problem").distinct().collect() == [(None,)]
    assert again.select("data.*").collect() == rows.collect()


def test_json_schema_there_and_back(spark: SparkSession, registry: Registry) -> None:
    place = f"http://{registry.place}"
    rows = spark.sql(
        "SELECT 'k' AS key, 1L AS n, 'x' AS name, ARRAY(1.5D) AS rates, NAMED_STRUCT('a', true) AS of"
    )
    records = encoded(rows, place, "orders-value", "json-schema")
    (record,) = records.collect()
    assert (record.key, json.loads(record.value[5:])) == (
        "k",
        {"n": 1, "name": "x", "rates": [1.5], "of": {"a": True}},
    )
    (row,) = decoded(records, place, "orders-value", "json-schema").select("key", "data.*").collect()
    assert row == rows.collect()[0]


def test_records_of_an_older_schema_and_such_that_cannot_be_read(
    spark: SparkSession, registry: Registry
) -> None:
    place = SchemaRegistry(f"http://{registry.place}")
    older = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
    newer = {**older, "fields": [*older["fields"], {"name": "n", "type": "int", "default": 7}]}
    values = [
        Avro(schema, registry=place).serialize("orders", {"item": "figs", "n": 1})
        for schema in (older, newer)
    ]
    rows = spark.createDataFrame(
        [(each,) for each in (*values, b"figs", b"\0\0\0\0\1", None)], "value BINARY"
    )
    found = decoded(rows, place.url, "orders-value").select("data.*", "problem").collect()
    assert [(row.item, row.n) for row in found] == [
        ("figs", 7),
        ("figs", 1),
        (None, None),
        (None, None),
        (None, None),
    ]
    assert "does not start with the id of a schema" in found[2].problem
    assert found[3].problem.startswith("EOFError")
    assert found[4].problem is None


def test_a_value_that_is_not_what_its_schema_says(spark: SparkSession, registry: Registry) -> None:
    place = SchemaRegistry(f"http://{registry.place}")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    place.register("orders-value", json.dumps(schema), "JSON")
    head = b"\0\0\0\0\1"
    rows = spark.createDataFrame([(head + b'{"n": 1}',), (head + b'{"n": "one"}',)], "value BINARY")
    found = decoded(rows, place.url, "orders-value", "json-schema").select("data.n", "problem").collect()
    assert (found[0].n, found[0].problem, found[1].n) == (1, None, None)
    assert "Arrow" in found[1].problem


def test_types_that_have_no_column() -> None:
    with pytest.raises(UnsupportedTypeError, match="a union of 2 types"):
        spark_of_avro(["int", "string"])
    with pytest.raises(UnsupportedTypeError, match="odd is no known type"):
        spark_of_avro("odd")
    with pytest.raises(UnsupportedTypeError, match="odd is no known type"):
        spark_of_json({"type": "odd"})
    from pyspark.sql.types import CalendarIntervalType

    for back in (avro_of, json_of):
        with pytest.raises(UnsupportedTypeError, match="has no type in"):
            back(CalendarIntervalType(), "x")
    with pytest.raises(SchemaError, match="'odd' is none of avro, json-schema"):
        decoded(None, "http://x", "s", "odd")  # type: ignore[arg-type]


def test_a_pipeline_from_avro_to_json_schema(
    spark: SparkSession, bootstrap: str, topic: str, registry: Registry, tmp_path: Path
) -> None:
    from barnabas.client.sync import Producer

    create(bootstrap, topic)
    create(bootstrap, f"{topic}-out")
    place = SchemaRegistry(f"http://{registry.place}")
    orders = Avro(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "item", "type": "string"}, {"name": "n", "type": "int"}],
        },
        registry=place,
    )
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(3):
            producer.send(topic, orders.serialize(topic, {"item": "figs", "n": number})).result(60)
    path = tmp_path / "p.toml"
    path.write_text(
        f"""
name = "orders"
[settings]
registry = "{place.url}"
[sources.orders]
topic = "{topic}"
value_format = "avro"
schema_registry = "{{registry}}"
[transforms.doubled]
sql = "SELECT data.item AS key, data.item, data.n * 2 AS twice FROM {{orders}}"
[sinks.out]
of = "doubled"
topic = "{topic}-out"
exactly_once = true
value_format = "json-schema"
schema_registry = "{{registry}}"
""",
        "utf-8",
    )
    given = {"bootstrap": bootstrap, "checkpoint": str(tmp_path / "checkpoints")}
    running = pipeline_of(path).start(spark, given, trigger="available-now")
    running.await_end()
    running.check()
    rows = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", f"{topic}-out")
        .load()
    )
    found = decoded(rows, place.url, f"{topic}-out-value", "json-schema").selectExpr(
        "CAST(key AS STRING)", "data.*"
    )
    assert sorted(tuple(row) for row in found.collect()) == [("figs", "figs", n) for n in (0, 2, 4)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('topic = "a"\nvalue_format = "odd"\nschema_registry = "http://x"', "neither avro nor json-schema"),
        ('topic = "a"\nvalue_format = "avro"', "needs schema_registry"),
        ('format = "rate"\nvalue_format = "avro"', "only a topic has it"),
    ],
)
def test_a_source_that_says_too_little(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(f'name = "p"\n[sources.a]\n{text}\n', "utf-8")
    with pytest.raises(PipelineError, match=said):
        pipeline_of(path)
