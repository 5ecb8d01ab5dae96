"""Batch reads of topics; most without a session, by what Spark would call."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    StringContains,
)
from pyspark.sql.types import BinaryType, StructField, StructType, TimestampType

from barnabas.batch.faults import CorruptBatch
from barnabas.client import OffsetAndMetadata, TopicPartition
from barnabas.client.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.sync import Admin, Producer
from barnabas.spark.given_options import OptionError
from barnabas.spark.source import batch_reader, source_schema, stream_reader
from barnabas.spark.source.batch import FilteringBatchReader
from barnabas.spark.source.loss import DataLossError
from barnabas.spark.source.options import batch_options
from tests.spark.topics import batch_rows, create, delete_records, options_of, produce, read_rows, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Some minutes ago: brokers refuse times of the future.
_BASE_MS = int(time.time()) * 1000 - 600_000
TEN = [b"%d" % number for number in range(10)]


def test_rows_have_the_columns_of_sparks_connector(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """All of it through a session."""
    create(bootstrap, topic, 2)
    produce(
        bootstrap,
        topic,
        [b"a", None],
        key=b"k",
        headers=(("h", b"1"), ("h", None)),
        timestamp_ms=_BASE_MS + 123,
    )
    produce(bootstrap, topic, [b"", b"b"], partition=1, timestamp_ms=_BASE_MS + 124)
    given = options_of(bootstrap, topic, includeHeaders="true")
    frame = spark.read.format("barnabas").options(**given).load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = [tuple(row) for row in frame.selectExpr(
        "key", "value", "topic", "partition", "offset", "unix_millis(timestamp)", "timestampType", "headers"
    ).orderBy("partition", "offset").collect()]  # fmt: skip
    headers = [("h", bytearray(b"1")), ("h", None)]
    assert rows == [
        (b"k", b"a", topic, 0, 0, _BASE_MS + 123, 0, headers),
        (b"k", None, topic, 0, 1, _BASE_MS + 123, 0, headers),
        (None, b"", topic, 1, 0, _BASE_MS + 124, 0, None),
        (None, b"b", topic, 1, 1, _BASE_MS + 124, 0, None),
    ]


def test_a_schema_prunes_columns_and_a_plain_session_filters(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    create(bootstrap, topic, 2)
    produce(bootstrap, topic, TEN)
    produce(bootstrap, topic, TEN[:3], partition=1)
    given = options_of(bootstrap, topic)
    pruned = spark.read.format("barnabas").options(**given).schema("value binary, partition int")
    frame = pruned.load()
    assert frame.columns == ["value", "partition"]
    assert frame.filter("partition = 1").count() == 3
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        whole = spark.read.format("barnabas").options(**given).load()
        filtered = whole.filter("partition = 0 and offset >= 4 and offset < 6 and value is not null")
        assert [row.value for row in filtered.orderBy("offset").collect()] == [b"4", b"5"]
        # Both filters on offsets are the source's own work, so Spark has only the one on value left.
        plan = filtered._jdf.queryExecution().executedPlan().toString()
        assert "isnotnull(value" in plan
        assert "offset" not in plan.split("Filter")[1].split("\n")[0]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_an_error_of_the_source_reaches_the_user(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        spark.read.format("barnabas").options(
            **options_of(bootstrap, "x", startingofsets="earliest")
        ).load().count()


# ----------------------------------------------------------------------------------------- what is to be read


def test_offsets_start_and_end_as_configured(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 2)
    produce(bootstrap, topic, TEN)
    produce(bootstrap, topic, TEN, partition=1)
    starting = json.dumps({topic: {"0": 7, "1": -2}})
    ending = json.dumps({topic: {"0": -1, "1": 2}})
    rows = batch_rows(options_of(bootstrap, topic, startingOffsets=starting, endingOffsets=ending))
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 7), (0, 8), (0, 9), (1, 0), (1, 1)]
    assert (
        batch_rows(options_of(bootstrap, topic, startingOffsets=json.dumps({topic: {"0": 10, "1": 10}})))
        == []
    )


def test_times_start_and_end_reads(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    now = _BASE_MS
    for number in range(5):
        produce(bootstrap, topic, [TEN[number]], timestamp_ms=now + number * 1000)
    given = options_of(bootstrap, topic, startingTimestamp=str(now + 1000), endingTimestamp=str(now + 2500))
    assert values(batch_rows(given)) == TEN[1:3]
    by_partition = json.dumps({topic: {"0": now + 3001}})
    assert (
        values(batch_rows(options_of(bootstrap, topic, startingOffsetsByTimestamp=by_partition))) == TEN[4:5]
    )
    # No record is that new: an end is the current end, a start is an error unless configured otherwise.
    late = str(now + 10**7)
    assert values(batch_rows(options_of(bootstrap, topic, endingTimestamp=late))) == TEN[:5]
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy to latest"):
        batch_rows(options_of(bootstrap, topic, startingTimestamp=late))
    relaxed = options_of(
        bootstrap, topic, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest"
    )
    assert batch_rows(relaxed) == []


def test_patterns_and_assignments_choose_partitions(bootstrap: str, topic: str) -> None:
    for name in (f"{topic}-a", f"{topic}-b"):
        create(bootstrap, name, 2)
        produce(bootstrap, name, [b"x"], partition=0)
        produce(bootstrap, name, [b"y"], partition=1)
    servers = {"kafka.bootstrap.servers": bootstrap}
    # Found anywhere in the name, as Spark's connector does.
    assert len(batch_rows({**servers, "subscribePattern": f"{topic}-[ab]"})) == 4
    assert batch_rows({**servers, "subscribePattern": f"{topic}-c"}) == []
    assigned = json.dumps({f"{topic}-a": [1], f"{topic}-b": [0]})
    assert values(batch_rows({**servers, "assign": assigned})) == [b"y", b"x"]


def test_missing_partitions_are_reported(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(bootstrap, topic, 2)
    produce(bootstrap, topic, [b"x"], partition=1)
    assigned = {
        "kafka.bootstrap.servers": bootstrap,
        "assign": json.dumps({topic: [1, 2, 7]}),
        "fetchOffset.retryIntervalMs": "1",
    }
    # Spark's own connector skips them silently.
    with pytest.raises(
        OptionError, match=f"assign: {topic}-2, {topic}-7 is not known to .*: correct the opt"
    ):
        batch_rows(assigned)
    with pytest.raises(OptionError, match=f"assign: {topic}-2, {topic}-7 is not known to"):
        stream_reader(source_schema(assigned), assigned).initialOffset()
    assert values(batch_rows({**assigned, "failOnDataLoss": "false"})) == [b"x"]
    assert f"assign names {topic}-2, {topic}-7, which do not exist" in caplog.text
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_consumer_group_offsets(
            topic, {TopicPartition(topic, 0): OffsetAndMetadata(1)}
        ).raise_first()
    with pytest.raises(OptionError, match="__consumer_offsets is an internal topic"):
        batch_rows(options_of(bootstrap, "__consumer_offsets"))


def test_groups_determine_the_start(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 2)
    produce(bootstrap, topic, TEN)
    produce(bootstrap, topic, TEN[:2], partition=1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_consumer_group_offsets(
            topic, {TopicPartition(topic, 0): OffsetAndMetadata(8)}
        ).raise_first()
    rows = batch_rows(options_of(bootstrap, topic, startingOffsets="committed", groupId=topic))
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 8), (0, 9), (1, 0), (1, 1)]


def test_more_tasks_than_partitions_read_the_same(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    given = options_of(bootstrap, topic, minPartitions="3")
    reader = batch_reader(source_schema(given), given)
    partitions = reader.partitions()
    assert len(partitions) == 3
    assert values(read_rows(reader, partitions)) == TEN


def test_transactions_are_seen_as_the_isolation_level_says(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for values_, commit in (([b"1", b"2"], True), ([b"3", b"4"], False), ([b"5"], True)):
            producer.begin_transaction()
            for value in values_:
                producer.send(topic, value, partition=0).result(300)
            producer.commit_transaction() if commit else producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"6", partition=0).result(300)
        committed = options_of(bootstrap, topic, kafka__isolation__level="read_committed")
        assert values(batch_rows(committed)) == [b"1", b"2", b"5"]
        assert values(batch_rows(options_of(bootstrap, topic))) == [b"1", b"2", b"3", b"4", b"5", b"6"]
        producer.abort_transaction()


# ---------------------------------------------------------------------------------------------------- filters


def filtered(given: dict[str, str], *filters: Any) -> tuple[list[bytes | None], int]:
    """What tasks give for these filters, and how many of these Spark has to apply."""
    reader = FilteringBatchReader(source_schema(given), batch_options(given))
    left = list(reader.pushFilters(list(filters)))
    return values(read_rows(reader, reader.partitions())), len(left)


def test_filters_on_partition_offset_and_topic_leave_nothing_to_spark(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 3)
    for partition in range(3):
        produce(
            bootstrap, topic, [b"%d-%d" % (partition, number) for number in range(5)], partition=partition
        )
    given = options_of(bootstrap, topic)
    assert filtered(
        given, EqualTo(("partition",), 1), IsNotNull(("partition",)), LessThan(("offset",), 2)
    ) == (
        [b"1-0", b"1-1"],
        0,
    )
    assert filtered(given, In(("partition",), (0, 2)), EqualTo(("offset",), 3)) == ([b"0-3", b"2-3"], 0)
    assert filtered(given, EqualTo(("topic",), "another")) == ([], 0)
    assert filtered(given, GreaterThan(("offset",), 3), StringContains(("topic",), "x"))[1] == 1
    # Contradictions and offsets that are not there are no errors: such rows are just not there.
    assert filtered(given, GreaterThan(("offset",), 100)) == ([], 0)
    assert filtered(given, GreaterThan(("offset",), 3), LessThan(("offset",), 2)) == ([], 0)


def test_a_filter_on_time_saves_reading_and_stays_with_spark(bootstrap: str, topic: str) -> None:
    """Timestamps need not grow with offsets: newer records are found at any offset."""
    create(bootstrap, topic)
    base = _BASE_MS
    for offset, time_ms in enumerate((base, base + 2000, base + 1000, base + 3000, base)):
        produce(bootstrap, topic, [b"%d" % offset], timestamp_ms=time_ms)
    after = datetime.fromtimestamp((base + 2000) / 1000, UTC)
    seen, left = filtered(options_of(bootstrap, topic), GreaterThanOrEqual(("timestamp",), after))
    assert left == 1
    # Spark filters offsets 2 and 4 if they are there; 1 and 3 must be.
    assert set(seen) >= {b"1", b"3"}
    assert b"0" not in seen


# -------------------------------------------------------------------------------------------------- bad input


def test_an_unknown_topic_is_named(bootstrap: str) -> None:
    given = options_of(bootstrap, "nobody-made-this", fetchOffset__retryIntervalMs="1")
    with pytest.raises(OptionError, match=r"nobody-made-this is not known to .*: create it, or correct"):
        batch_rows(given)


def test_offsets_must_name_every_partition(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 2)
    with pytest.raises(OptionError, match=f"names {topic}-0, and there are {topic}-0, {topic}-1"):
        batch_rows(options_of(bootstrap, topic, startingOffsets=json.dumps({topic: {"0": 0}})))


def test_offsets_out_of_range_fail_or_are_passed_over(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    delete_records(bootstrap, topic, 0, 4)
    given = options_of(bootstrap, topic, startingOffsets=json.dumps({topic: {"0": 2}}))
    with pytest.raises(
        DataLossError, match=r"has offsets 4 to 9, so 2 to 9 cannot all be read.*failOnDataLoss"
    ):
        batch_rows(given)
    assert values(batch_rows({**given, "failOnDataLoss": "false"})) == TEN[4:]
    # The beginning is wherever it is.
    assert values(batch_rows(options_of(bootstrap, topic))) == TEN[4:]
    beyond = options_of(bootstrap, topic, endingOffsets=json.dumps({topic: {"0": 12}}))
    with pytest.raises(DataLossError, match="ends at offset 10, before the end offset 12"):
        batch_rows(beyond)
    assert values(batch_rows({**beyond, "failOnDataLoss": "false"})) == TEN[4:]


def test_records_that_go_while_they_are_read_count_as_lost(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    for fail in ("true", "false"):
        for asked, starting in (("earliest", "earliest"), ("named", json.dumps({topic: {"0": 0}}))):
            given = options_of(bootstrap, topic, startingOffsets=starting, failOnDataLoss=fail)
            reader = batch_reader(source_schema(given), given)
            if fail == "true" and asked == "earliest":
                first = reader.partitions(), reader
                delete_records(bootstrap, topic, 0, 3)
                assert values(read_rows(first[1], first[0])) == TEN[3:]
                continue
            planned = reader.partitions()
            if fail == "true":
                with pytest.raises(DataLossError, match="cannot all be read"):
                    read_rows(reader, planned)
            else:
                assert values(read_rows(reader, planned)) == TEN[3:]


def test_a_deleted_topic_is_reported(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.spark.source import fetching

    monkeypatch.setattr(fetching, "UNKNOWN_TIMEOUT_MS", 300)
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    given = options_of(bootstrap, topic)
    reader = batch_reader(source_schema(given), given)
    planned = reader.partitions()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic]).raise_first()
    with pytest.raises(DataLossError, match="was deleted"):
        read_rows(reader, planned)


def test_an_unavailable_broker_is_reported_with_the_reason(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    given = options_of(bootstrap, topic)
    planned = batch_reader(source_schema(given), given).partitions()
    away = {**given, "kafka.bootstrap.servers": "127.0.0.1:9", "kafkaConsumer.pollTimeoutMs": "400"}
    reader = batch_reader(source_schema(away), away)
    with pytest.raises(
        KafkaTimeoutError, match=f"{topic}-0 could not be read from offset 0 on within 400 ms.*127.0.0.1:9"
    ):
        read_rows(reader, planned)


def test_records_that_cannot_be_decoded_name_their_place(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    from barnabas.spark.source import fetching

    def damaged(partition: Any, data: bytes, *rest: Any) -> CompletedFetch:
        return CompletedFetch(partition, data[:-1] + bytes([data[-1] ^ 1]), *rest)

    monkeypatch.setattr(fetching, "CompletedFetch", damaged)
    with pytest.raises(
        CorruptBatch, match=f"{topic}-0 cannot be decoded.*offset .*start after it by startingOffsets"
    ):
        batch_rows(options_of(bootstrap, topic))


def test_a_time_that_spark_cannot_hold_is_named(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, message_timestamp_after_max_ms=str(2**63 - 1))
    produce(bootstrap, topic, [b"x"], timestamp_ms=2**62)
    with pytest.raises(ValueError, match=f"offset 0 of {topic}-0 has the timestamp {2**62} ms"):
        batch_rows(options_of(bootstrap, topic))
    kept = StructType([StructField("value", BinaryType())])
    reader = batch_reader(kept, options_of(bootstrap, topic))
    assert values(read_rows(reader, reader.partitions())) == [b"x"]
    assert TimestampType() not in [field.dataType for field in kept]
