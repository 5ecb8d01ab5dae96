"""Options and columns of the sink: what is accepted, and the messages for the others."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from barnabas.spark.sink import batch_writer, stream_writer
from barnabas.spark.sink.columns import SinkColumns, sink_columns
from barnabas.spark.sink.options import DEFAULT_CONTROL_TOPIC, sink_options

SERVERS = {"kafka.bootstrap.servers": "localhost:1"}
EXACTLY = {**SERVERS, "deliveryGuarantee": "exactly-once", "sinkId": "s"}


def test_the_least_that_is_needed() -> None:
    options = sink_options(SERVERS)
    assert options.topic is None
    assert not options.is_exactly_once
    assert options.table_settings()["bootstrap.servers"] == "localhost:1"


def test_user_options_override_table_defaults() -> None:
    given = {**SERVERS, "kafka.batch.size": "100", "kafka.linger.ms": "0"}
    settings = sink_options(given).table_settings()
    assert (settings["batch.size"], settings["linger.ms"]) == ("100", "0")


def test_options_of_spark_and_of_other_clients_are_let_pass() -> None:
    """Spark hands its own on; and programs give their readers and writers the same options."""
    of_spark = {"path": "x", "checkpointLocation": "x", "queryName": "x"}
    clients = {"kafka.group.id": "g", "kafka.isolation.level": "read_committed", "kafka.sasl.jaas.config": ""}
    assert sink_options({**SERVERS, **of_spark, **clients}).kafka["group.id"] == "g"


def test_exactly_once() -> None:
    options = sink_options({**EXACTLY, "DELIVERYGUARANTEE": "Exactly-Once", "batchId": "7"})
    assert (options.sink_id, options.batch_id) == ("s", 7)
    assert options.control_topic == DEFAULT_CONTROL_TOPIC
    assert options.table_settings("x")["transactional.id"] == "x"
    assert options.table_settings("x")["transaction.timeout.ms"] == "900000"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "'kafka.bootstrap.servers' must be specified"),
        ({**SERVERS, "kafka.key.serializer": "x"}, "keys are serialized with ByteArraySerializer"),
        ({**SERVERS, "kafka.value.serializer": "x"}, "value are serialized with ByteArraySerializer"),
        ({**SERVERS, "kafka.transactional.id": "x"}, "set deliveryGuarantee and sinkId"),
        ({**SERVERS, "kafka.partitioner.class": "x"}, "a column 'partition'"),
        ({**SERVERS, "deliveryGuarantee": "twice"}, "use one of at-least-once, exactly-once"),
        ({**SERVERS, "deliveryGuarantee": "exactly-once"}, "'sinkId' must be specified"),
        ({**SERVERS, "sinkId": "s"}, "set both, or neither"),
        ({**SERVERS, "batchId": "1"}, "'batchId' is for deliveryGuarantee=exactly-once"),
        ({**SERVERS, "controlTopic": "c"}, "'controlTopic' is for deliveryGuarantee=exactly-once"),
        ({**SERVERS, "delivery_guarantee": "exactly-once"}, "did you mean deliveryGuarantee"),
        (
            {**SERVERS, "colour": "red"},
            "colour is not an option of this sink; known are topic, deliveryGuarantee",
        ),
        ({**SERVERS, "kafka.compresion.type": "lz4"}, "did you mean kafka.compression.type"),
        ({**EXACTLY, "sinkId": "a b"}, "use 1 to 120 letters"),
        ({**EXACTLY, "batchId": "-1"}, "foreachBatch"),
    ],
)
def test_wrong_options_are_explained(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sink_options(given)


def header_list(name: str = "key") -> ArrayType:
    return ArrayType(StructType([StructField(name, StringType()), StructField("value", BinaryType())]), False)


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "headers": header_list(),
    "misnamed": header_list("name"),
    "strings": ArrayType(StringType()),
}


def schema(text: str) -> StructType:
    """From "name type, name type": Spark's own reader of such texts needs a JVM."""
    columns = [column.split() for column in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in columns])


def test_columns_are_found_by_name() -> None:
    found = sink_columns(
        schema("other int, partition int, headers headers, value string, key binary, topic string"), None
    )
    assert found == SinkColumns(value=3, key=4, headers=2, partition=1, topic=5)
    assert sink_columns(schema("value binary"), "t") == SinkColumns(0, None, None, None, None)


def test_the_option_topic_wins_over_the_column() -> None:
    assert sink_columns(schema("value binary, topic int"), "t").topic is None


@pytest.mark.parametrize(
    ("columns", "topic", "words"),
    [
        (
            "value string",
            None,
            "topic option required when no 'topic' attribute is present.",
        ),
        ("key string", "t", "Required attribute 'value' not found"),
        ("VALUE string", "t", "Required attribute 'value' not found"),
        ("value int", "t", r"value attribute unsupported type int. value must be a\(n\) string or binary"),
        (
            "value string, key bigint",
            "t",
            r"key attribute unsupported type bigint. key must be a\(n\) string or binary",
        ),
        (
            "value string, topic int",
            None,
            r"topic attribute unsupported type int. topic must be a\(n\) string",
        ),
        (
            "value string, partition bigint",
            "t",
            r"partition attribute unsupported type bigint. partition must be a\(n\) int",
        ),
        (
            "value string, headers strings",
            "t",
            r"type array<string>. headers must be a\(n\) array<struct<key:string,value:binary>>",
        ),
        (
            "value string, headers misnamed",
            "t",
            "headers attribute unsupported type",
        ),
    ],
)
def test_wrong_columns_are_rejected_with_the_connectors_messages(
    columns: str, topic: str | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        sink_columns(schema(columns), topic)


def test_topics_are_only_appended_to() -> None:
    with pytest.raises(ValueError, match="Overwrite not allowed"):
        batch_writer(schema("value string"), {**SERVERS, "topic": "t"}, True)
    assert stream_writer(schema("value string"), {**SERVERS, "topic": "t"}, True)


def test_a_stream_counts_its_batches_itself() -> None:
    with pytest.raises(ValueError, match="batchId"):
        stream_writer(schema("value string"), {**EXACTLY, "topic": "t", "batchId": "1"}, False)
