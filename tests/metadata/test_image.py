"""Images: replaying Apache Kafka's metadata logs gives the content of its own snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.view import batches
from barnabas.metadata.delta import Delta, InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource, Image
from barnabas.metadata.snapshot import record_version, records_of
from barnabas.protocol.record_frame import read_metadata_record, write_metadata_record
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message

SNAPSHOTS = [
    ("kraft-4.1.0", 128),
    ("kraft-4.1.0", 172),
    ("kraft-4.1.0", 212),
]


def read(path: Path) -> Iterator[tuple[int, Message, int]]:
    """(offset, record, version) of the data batches of a metadata log or snapshot."""
    for batch in batches(path.read_bytes()):
        if not batch.is_control:
            for record in batch.records():
                assert record.value is not None
                yield record.offset, *read_metadata_record(record.value)


def image_of(path: Path, end: int = 2**62) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for offset, record, _ in read(path):
        if offset < end and not is_transaction_mark(record):
            delta.apply(record)
    return delta.image


def is_transaction_mark(record: Message) -> bool:
    marks = (records.BeginTransactionRecord, records.EndTransactionRecord, records.AbortTransactionRecord)
    return isinstance(record, marks)


@pytest.mark.parametrize(("mode", "end"), SNAPSHOTS)
def test_replaying_the_log_gives_the_image_of_the_snapshot(golden_logs: Path, mode: str, end: int) -> None:
    # M-C11
    folder = golden_logs / mode / "data" / "__cluster_metadata-0"
    from_log = image_of(folder / f"{0:020d}.log", end)
    from_snapshot = image_of(folder / f"{end:020d}-{1:010d}.checkpoint")
    assert from_log == from_snapshot
    assert from_log.topics


@pytest.mark.parametrize("mode", ["kraft-3.9.1", "kraft-4.1.0"])
def test_an_image_round_trips_through_records(golden_logs: Path, mode: str) -> None:
    image = image_of(golden_logs / mode / "data" / "__cluster_metadata-0" / f"{0:020d}.log")
    rebuilt = Delta(EMPTY_IMAGE)
    for record in records_of(image):
        version = record_version(record, image.metadata_version)
        rebuilt.apply(read_metadata_record(write_metadata_record(record, version))[0])
    assert rebuilt.image == image


@pytest.mark.parametrize("mode", ["kraft-3.9.1", "kraft-4.1.0"])
def test_record_versions_match_apache_kafka(golden_logs: Path, mode: str) -> None:
    path = golden_logs / mode / "data" / "__cluster_metadata-0" / f"{0:020d}.log"
    level = image_of(path).metadata_version
    for _, record, version in read(path):
        assert version == record_version(record, level), record


def test_a_delta_lists_its_changes_and_keeps_the_previous_image() -> None:
    topic = Uuid(b"t" * 16)
    delta = Delta(EMPTY_IMAGE)
    delta.apply(records.TopicRecord(name="orders", topic_id=topic))
    delta.apply(partition(topic))
    delta.apply(config("orders", "retention.ms", "1000"))
    delta.at(7, 1, 1000)
    assert not EMPTY_IMAGE.topics
    assert delta.partitions == {(topic, 0)}
    assert delta.configs == {(ConfigResource.TOPIC, "orders")}
    assert (delta.image.offset, delta.image.epoch) == (7, 1)

    removal = Delta(delta.image)
    removal.apply(records.RemoveTopicRecord(topic_id=topic))
    assert [topic.name for topic in removal.removed_topics] == ["orders"]
    assert not removal.image.topics
    assert not removal.image.configs
    assert delta.image.topic_named("orders") is not None


def test_a_leader_bumps_the_leader_epoch_and_every_change_the_partition_epoch() -> None:
    # M-D7
    topic = Uuid(b"t" * 16)
    delta = Delta(EMPTY_IMAGE)
    delta.apply(records.TopicRecord(name="orders", topic_id=topic))
    delta.apply(partition(topic))
    delta.apply(records.PartitionChangeRecord(partition_id=0, topic_id=topic, isr=[1]))
    shrunk = delta.image.partition(topic, 0)
    assert shrunk is not None
    assert (shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == ((1,), 0, 1)
    delta.apply(records.PartitionChangeRecord(partition_id=0, topic_id=topic, leader=1))
    led = delta.image.partition(topic, 0)
    assert led is not None
    assert (led.leader, led.leader_epoch, led.partition_epoch) == (1, 1, 2)


@pytest.mark.parametrize(
    "record",
    [
        records.RemoveTopicRecord(topic_id=Uuid(b"x" * 16)),
        records.PartitionChangeRecord(partition_id=0, topic_id=Uuid(b"x" * 16)),
        records.UnregisterBrokerRecord(broker_id=1, broker_epoch=1),
        records.RemoveAccessControlEntryRecord(id=Uuid(b"x" * 16)),
        records.RemoveUserScramCredentialRecord(name="nobody", mechanism=1),
    ],
)
def test_an_inconsistent_record_is_rejected_and_changes_nothing(record: Message) -> None:
    delta = Delta(EMPTY_IMAGE)
    with pytest.raises(InconsistentRecordError):
        delta.apply(record)
    assert delta.image == EMPTY_IMAGE


def test_a_resource_without_configs_is_removed() -> None:
    delta = Delta(EMPTY_IMAGE)
    delta.apply(config("orders", "retention.ms", "1000"))
    delta.apply(config("orders", "retention.ms", None))
    assert delta.image == EMPTY_IMAGE


def partition(topic: Uuid) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=0,
        topic_id=topic,
        replicas=[1, 2],
        isr=[1, 2],
        removing_replicas=[],
        adding_replicas=[],
        leader=2,
        leader_epoch=0,
        partition_epoch=0,
    )


def config(topic: str, name: str, value: str | None) -> records.ConfigRecord:
    return records.ConfigRecord(
        resource_type=ConfigResource.TOPIC, resource_name=topic, name=name, value=value
    )
