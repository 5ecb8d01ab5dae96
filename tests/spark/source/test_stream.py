"""Streams of topics; most without a session, by what Spark would call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from barnabas.client import NewTopic, TopicPartition
from barnabas.client.sync import Admin, Consumer
from barnabas.spark.given_options import OptionError
from barnabas.spark.source import source_schema, stream_reader
from barnabas.spark.source.loss import DataLossError
from barnabas.spark.source.stream import StreamReader
from barnabas.spark.topic_ids import IDS
from tests.spark.topics import create, delete_records, finished, options_of, produce, read_rows, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEN = [b"%d" % number for number in range(10)]
ALL = ReadAllAvailable()


def reader_of(bootstrap: str, topic: str, **options: Any) -> StreamReader:
    options.setdefault("fetchOffset__retryIntervalMs", "1")
    given = options_of(bootstrap, topic, **options)
    made = stream_reader(source_schema(given), given)
    assert isinstance(made, StreamReader)
    return made


def between(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes | None]:
    return values(read_rows(reader, reader.partitions(start, end)))


def run(
    spark: SparkSession, checkpoint: Path, given: dict[str, str], write: Callable[[DataFrame, int], None]
) -> Any:
    """A query over all that is there now, to its end."""
    frame = spark.readStream.format("barnabas").options(**given).load()
    return finished(
        frame.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start
    )


# ------------------------------------------------------------------------------------------ through a session


def test_a_query_continues_from_its_checkpoint_and_commits_for_its_group(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    seen: list[list[bytes]] = []

    def write(frame: DataFrame, number: int) -> None:
        rows = sorted((row.partition, row.offset, bytes(row.value)) for row in frame.collect())
        seen.append([value for _, _, value in rows])

    given = options_of(bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="6", groupId=topic)
    query = run(spark, tmp_path, given, write)
    assert seen == [TEN[:6], TEN[6:]]
    source = query.lastProgress.sources[0]
    assert plain(json.loads(source.endOffset)) == json.loads(source.latestOffset) == {topic: {"0": 10}}
    # Partitions that are added later are read from their beginning.
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: 2}).raise_first()
    produce(bootstrap, topic, [b"10"])
    produce(bootstrap, topic, [b"11"], partition=1)
    del seen[:]
    run(spark, tmp_path, {**given, "maxOffsetsPerTrigger": "100"}, write)
    assert seen == [[b"10", b"11"]]
    # M-I: every tool sees the lag.
    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        committed = consumer.committed(both)
        assert [one.offset for one in (committed[partition] for partition in both) if one is not None] == [
            11,
            1,
        ]


def test_a_checkpoint_of_another_query_ends_it_with_a_clear_word(
    spark: SparkSession, bootstrap: str, topic: str, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    run(spark, tmp_path, options_of(bootstrap, topic, startingOffsets="earliest"), lambda frame, _: None)
    other = fresh_name()
    create(bootstrap, other)
    frame = spark.readStream.format("barnabas").options(**options_of(bootstrap, other)).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match=f"{topic}-0 were deleted.*failOnDataLoss"):
        finished(writer.trigger(availableNow=True).start)


def plain(offsets: dict[str, Any]) -> dict[str, Any]:
    """Without the ids of the topics."""
    return {topic: of for topic, of in offsets.items() if topic != IDS}


# ------------------------------------------------------------------------------------- which offsets are next


def test_limits_are_as_configured(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 2)
    produce(bootstrap, topic, TEN)
    produce(bootstrap, topic, TEN, partition=1)
    reader = reader_of(bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    start = reader.initialOffset()
    assert plain(start) == {topic: {"0": 0, "1": 0}}
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    assert plain(reader.latestOffset(start, limit)) == {topic: {"0": 3, "1": 3}}
    # The once trigger reads everything, whatever the options are.
    assert plain(reader.latestOffset(start, ALL)) == {topic: {"0": 10, "1": 10}}
    assert reader.reportLatestOffset() == {topic: {"0": 10, "1": 10}}
    reader.stop()


def test_available_now_does_not_run_after_new_records(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    reader = reader_of(bootstrap, topic, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    assert plain(reader.latestOffset(reader.initialOffset(), ALL)) == {topic: {"0": 10}}
    produce(bootstrap, topic, TEN)
    assert plain(reader.latestOffset({topic: {"0": 10}}, ALL)) == {topic: {"0": 10}}
    reader.stop()


def test_a_batch_waits_for_enough_records_but_not_forever(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN[:1])
    reader = reader_of(bootstrap, topic, startingOffsets="earliest", minOffsetsPerTrigger="5")
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    # The first one is overdue: it is unknown how long its records have waited.
    assert plain(reader.latestOffset(start, limit)) == {topic: {"0": 1}}
    produce(bootstrap, topic, TEN[:3])
    assert plain(reader.latestOffset({topic: {"0": 1}}, limit)) == {topic: {"0": 1}}
    produce(bootstrap, topic, TEN[:2])
    assert plain(reader.latestOffset({topic: {"0": 1}}, limit)) == {topic: {"0": 6}}
    reader.stop()
    hasty = reader_of(
        bootstrap, topic, startingOffsets="earliest", minOffsetsPerTrigger="50", maxTriggerDelay="0s"
    )
    assert plain(hasty.latestOffset({topic: {"0": 5}}, limit)) == {topic: {"0": 6}}
    assert plain(hasty.latestOffset({topic: {"0": 5}}, limit)) == {topic: {"0": 6}}
    hasty.stop()


def test_where_latest_was_survives_a_restart_before_the_first_commit(bootstrap: str, topic: str) -> None:
    """Spark keeps ends of batches only, so the first one is empty and ends where the query started."""
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN[:4])
    first = reader_of(bootstrap, topic)
    start = first.initialOffset()
    produce(bootstrap, topic, TEN[4:7])
    logged = first.latestOffset(start, ALL)
    assert logged == start
    assert plain(start) == {topic: {"0": 4}}
    first.stop()
    # The driver died; the same batch is tried again, and what is latest now is another offset.
    second = reader_of(bootstrap, topic)
    assert between(second, second.initialOffset(), logged) == []
    following = second.latestOffset(logged, ALL)
    assert between(second, logged, following) == TEN[4:7]
    second.stop()


def test_a_group_that_has_consumers_cannot_be_committed_for(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    reader = reader_of(bootstrap, topic, groupId=topic)
    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(timeout_ms=1000)
        with pytest.raises(OptionError, match=r"has consumers of its own.*another groupId"):
            reader.commit({topic: {"0": 10}})
    reader.stop()


# ------------------------------------------------------------------------------------------- what may be lost


def test_new_partitions_are_read_from_their_beginning(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, 2)
    produce(bootstrap, topic, TEN[:3], partition=1)
    reader = reader_of(bootstrap, topic)
    assert between(reader, {topic: {"0": 0}}, {topic: {"0": 0, "1": 3}}) == TEN[:3]
    limited = reader.latestOffset({topic: {"0": 0}}, ReadMaxRows(2))
    assert plain(limited) == {topic: {"0": 0, "1": 2}}
    # One whose first records are already deleted was missed.
    delete_records(bootstrap, topic, 1, 1)
    with pytest.raises(DataLossError, match=f"new partition {topic}-1 begins at offset 1, not at 0"):
        reader.partitions({topic: {"0": 0}}, {topic: {"0": 0, "1": 3}})
    reader.stop()


def test_deleted_or_truncated_partitions_are_reported(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    strict, lax = reader_of(bootstrap, topic), reader_of(bootstrap, topic, failOnDataLoss="false")
    more = {topic: {"0": 0, "1": 5}}
    with pytest.raises(DataLossError, match=f"{topic}-1 were deleted.*failOnDataLoss to false"):
        strict.partitions(more, {topic: {"0": 10}})
    assert between(lax, more, {topic: {"0": 10}}) == TEN
    with pytest.raises(DataLossError, match="went back from offset 20 to 10"):
        strict.partitions({topic: {"0": 20}}, {topic: {"0": 10}})
    assert between(lax, {topic: {"0": 20}}, {topic: {"0": 10}}) == []
    with pytest.raises(DataLossError, match="can no longer be found"):
        strict.partitions({topic: {"0": 10}}, {topic: {"0": 10, "7": 3}})
    assert between(lax, {topic: {"0": 9}}, {topic: {"0": 10, "7": 3}}) == TEN[9:]
    strict.stop()
    lax.stop()


def test_a_retention_gap_fails_or_is_passed_over(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    delete_records(bootstrap, topic, 0, 6)
    start, end = {topic: {"0": 2}}, {topic: {"0": 8}}
    strict, lax = reader_of(bootstrap, topic), reader_of(bootstrap, topic, failOnDataLoss="false")
    with pytest.raises(DataLossError, match="has offsets 6 to 9"):
        between(strict, start, end)
    assert between(lax, start, end) == TEN[6:8]
    # All of it is deleted.
    assert between(lax, start, {topic: {"0": 5}}) == []
    strict.stop()
    lax.stop()


def test_a_topic_that_was_deleted_and_created_again_is_not_read_on(bootstrap: str, topic: str) -> None:
    """Its offsets go on where the ones before ended, so that only its id tells."""
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN[:4])
    strict, lax = (reader_of(bootstrap, topic, failOnDataLoss=fail) for fail in ("true", "false"))
    start = strict.latestOffset({topic: {"0": 0}}, ALL)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic]).raise_first()
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN[:6])
    end = strict.latestOffset(start, ALL)
    with pytest.raises(
        DataLossError, match=f"the topic {topic} was deleted and created again.*failOnDataLoss"
    ):
        strict.partitions(start, end)
    assert between(lax, start, lax.latestOffset(start, ALL)) == TEN[:6]
    # With a limit too, and with a checkpoint of an earlier version, which has no ids.
    assert plain(lax.latestOffset(start, ReadMaxRows(5))) == {topic: {"0": 5}}
    assert between(strict, plain(start), end) == TEN[4:6]
    strict.stop()
    lax.stop()


def test_a_pattern_finds_topics_that_come_later(bootstrap: str, topic: str) -> None:
    create(bootstrap, f"{topic}-a")
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribePattern": f"{topic}-.",
        "startingOffsets": "earliest",
    }
    reader = stream_reader(source_schema(given), given)
    start = reader.initialOffset()
    assert plain(start) == {f"{topic}-a": {"0": 0}}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}-b", 1)]).raise_first()
    produce(bootstrap, f"{topic}-b", TEN[:2])
    end = reader.latestOffset(start, ALL)
    assert plain(end) == {f"{topic}-a": {"0": 0}, f"{topic}-b": {"0": 2}}
    assert values(read_rows(reader, reader.partitions(start, end))) == TEN[:2]
    reader.stop()


def test_deleted_offsets_are_reported(bootstrap: str, topic: str) -> None:
    """As after a leader was elected that lacks what the one before had."""
    create(bootstrap, topic)
    produce(bootstrap, topic, TEN)
    soon = {"kafkaConsumer__pollTimeoutMs": "600"}
    strict = reader_of(bootstrap, topic, **soon)
    lax = reader_of(bootstrap, topic, failOnDataLoss="false", **soon)
    for start, seen in ((8, TEN[8:]), (15, [])):
        with pytest.raises(DataLossError, match=r"has offsets 0 to 9, so .* to 19 cannot all be read"):
            between(strict, {topic: {"0": start}}, {topic: {"0": 20}})
        assert between(lax, {topic: {"0": start}}, {topic: {"0": 20}}) == seen
    strict.stop()
    lax.stop()


def test_a_stopped_stream_has_closed_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []

    class Offsets:
        topic_ids: ClassVar[dict[str, str]] = {}

        def __init__(self, _: object) -> None:
            pass

        def partitions(self) -> list[TopicPartition]:
            return []

        def latest(self, *_: object) -> dict[TopicPartition, int]:
            return {}

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr("barnabas.spark.source.stream.OffsetReader", Offsets)
    reader = reader_of("nowhere:1", "t")
    reader.stop()
    assert closed == []
    for stops in (1, 2):
        reader.latestOffset({}, ALL)
        reader.stop()
        reader.stop()
        assert len(set(closed)) == len(closed) == stops
