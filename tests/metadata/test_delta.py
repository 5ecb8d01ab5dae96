"""Deltas: what a record changes, what they list, and which records they reject."""

from __future__ import annotations

import pytest

from barnabas.base.ids import Uuid
from barnabas.metadata.delta import Delta, InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message


def test_a_delta_lists_its_changes_and_keeps_the_previous_image() -> None:
    topic = Uuid(b"t" * 16)
    delta = Delta(EMPTY_IMAGE)
    delta.replay(records.TopicRecord(name="orders", topic_id=topic))
    delta.replay(partition(topic))
    delta.replay(config("orders", "retention.ms", "1000"))
    delta.at(7, 1, 1000)
    assert not EMPTY_IMAGE.topics
    assert delta.partitions == {(topic, 0)}
    assert delta.configs == {(ConfigResource.TOPIC, "orders")}
    assert (delta.image.offset, delta.image.epoch) == (7, 1)

    removal = Delta(delta.image)
    removal.replay(records.RemoveTopicRecord(topic_id=topic))
    assert [topic.name for topic in removal.removed_topics] == ["orders"]
    assert not removal.image.topics
    assert not removal.image.configs
    assert delta.image.topic_named("orders") is not None


def test_a_leader_bumps_the_leader_epoch_and_every_change_the_partition_epoch() -> None:
    # M-D7
    topic = Uuid(b"t" * 16)
    delta = Delta(EMPTY_IMAGE)
    delta.replay(records.TopicRecord(name="orders", topic_id=topic))
    delta.replay(partition(topic))
    delta.replay(records.PartitionChangeRecord(partition_id=0, topic_id=topic, isr=[1]))
    shrunk = delta.image.partition(topic, 0)
    assert shrunk is not None
    assert (shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == ((1,), 0, 1)
    delta.replay(records.PartitionChangeRecord(partition_id=0, topic_id=topic, leader=1))
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
        delta.replay(record)
    assert delta.image == EMPTY_IMAGE


def test_a_resource_without_configs_is_removed() -> None:
    delta = Delta(EMPTY_IMAGE)
    delta.replay(config("orders", "retention.ms", "1000"))
    delta.replay(config("orders", "retention.ms", None))
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
