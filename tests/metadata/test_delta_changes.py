"""A delta names everything in which its image differs: publishers look at nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.view import batches
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource, Image
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message

FIELDS = ("topics", "brokers", "configs", "features", "quotas", "scram", "acls")
TOPIC_ID, ACL_ID = Uuid(b"t" * 16), Uuid(b"a" * 16)
ENTITY = [records.ClientQuotaRecord.EntityData(entity_type="user", entity_name="u")]
USER = (("user", "u"),)


def scram(iterations: int) -> Message:
    return records.UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"e", iterations=iterations
    )


def acl(principal: str) -> Message:
    return records.AccessControlEntryRecord(
        id=ACL_ID,
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal=principal,
        host="*",
        operation=2,
        permission_type=3,
    )


def quota(value: float, *, remove: bool = False) -> Message:
    return records.ClientQuotaRecord(entity=ENTITY, key="producer_byte_rate", value=value, remove=remove)


def config(value: str | None) -> Message:
    return records.ConfigRecord(
        resource_type=ConfigResource.TOPIC, resource_name="t", name="retention.ms", value=value
    )


def partition(number: int, **fields: list[int]) -> Message:
    return records.PartitionRecord(
        partition_id=number,
        topic_id=TOPIC_ID,
        replicas=[1, 2],
        isr=[1],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        **fields,  # type: ignore[arg-type]
    )


# A record, and the keys by the name of the set that it is to name them in.
STEPS: list[tuple[Message, dict[str, set[object]]]] = [
    (records.TopicRecord(name="t", topic_id=TOPIC_ID), {"topics": {TOPIC_ID}}),
    (
        partition(0, eligible_leader_replicas=[2], last_known_elr=[1]),
        {"topics": {TOPIC_ID}, "partitions": {(TOPIC_ID, 0)}},
    ),
    (partition(1, last_known_elr=[2]), {"topics": {TOPIC_ID}, "partitions": {(TOPIC_ID, 1)}}),
    (
        records.ClearElrRecord(topic_name="t"),
        {"topics": {TOPIC_ID}, "partitions": {(TOPIC_ID, 0), (TOPIC_ID, 1)}},
    ),
    (config("1"), {"configs": {(ConfigResource.TOPIC, "t")}}),
    (config(None), {"configs": {(ConfigResource.TOPIC, "t")}}),
    (config("2"), {"configs": {(ConfigResource.TOPIC, "t")}}),
    (records.FeatureLevelRecord(name="group.version", feature_level=1), {"features": {"group.version"}}),
    (records.FeatureLevelRecord(name="group.version", feature_level=0), {"features": {"group.version"}}),
    (quota(1.0), {"quotas": {USER}}),
    (quota(2.0), {"quotas": {USER}}),
    (quota(0.0, remove=True), {"quotas": {USER}}),
    (scram(4096), {"scram": {(1, "u")}}),
    (scram(8192), {"scram": {(1, "u")}}),
    (records.RemoveUserScramCredentialRecord(name="u", mechanism=1), {"scram": {(1, "u")}}),
    (acl("User:u"), {"acls": {ACL_ID}}),
    (acl("User:v"), {"acls": {ACL_ID}}),
    (records.RemoveAccessControlEntryRecord(id=ACL_ID), {"acls": {ACL_ID}}),
    (
        records.RemoveTopicRecord(topic_id=TOPIC_ID),
        {
            "topics": {TOPIC_ID},
            "partitions": {(TOPIC_ID, 0), (TOPIC_ID, 1)},
            "configs": {(ConfigResource.TOPIC, "t")},
        },
    ),
]


def differing(delta: Delta) -> dict[str, set[object]]:
    """The keys under which the two images differ."""
    found: dict[str, set[object]] = {}
    for field in FIELDS:
        before, after = getattr(delta.before, field), getattr(delta.image, field)
        found[field] = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    found["partitions"] = {
        (topic_id, number)
        for topic_id in found["topics"]
        for number in partitions_of(delta.before, topic_id) | partitions_of(delta.image, topic_id)
        if partition_of(delta.before, topic_id, number) != partition_of(delta.image, topic_id, number)
    }
    return {field: keys for field, keys in found.items() if keys}


def partitions_of(image: Image, topic_id: object) -> set[int]:
    topic = image.topics.get(topic_id)  # type: ignore[call-overload]
    return set() if topic is None else set(topic.partitions)


def partition_of(image: Image, topic_id: object, number: int) -> object:
    topic = image.topics.get(topic_id)  # type: ignore[call-overload]
    return None if topic is None else topic.partitions.get(number)


def named(delta: Delta) -> dict[str, set[object]]:
    return {field: keys for field in (*FIELDS, "partitions") if (keys := getattr(delta, field))}


def test_a_record_changes_what_it_is_about_and_nothing_else() -> None:
    image = EMPTY_IMAGE
    for record, expected in STEPS:
        delta = Delta(image)
        delta.replay(record)
        assert differing(delta) == expected, record
        assert named(delta) == expected, record
        image = delta.image
    assert image == EMPTY_IMAGE


def test_a_change_that_is_undone_is_still_named() -> None:
    delta = Delta(EMPTY_IMAGE)
    for record, _ in STEPS:
        delta.replay(record)
    assert differing(delta) == {}
    assert set(named(delta)) == {*FIELDS, "partitions"} - {"brokers"}


def log_records(path: Path) -> Iterator[Message]:
    for batch in batches(path.read_bytes()):
        if not batch.is_control:
            for record in batch.records():
                assert record.value is not None
                yield read_metadata_record(record.value)[0]


def test_every_change_in_a_log_of_apache_kafka_is_named(golden_logs: Path) -> None:
    image = EMPTY_IMAGE
    seen: set[str] = set()
    (path,) = (golden_logs / "kraft-4.1.0").rglob("__cluster_metadata-0/00000000000000000000.log")
    for record in log_records(path):
        delta = Delta(image)
        delta.replay(record)
        for field, keys in differing(delta).items():
            assert keys <= getattr(delta, field), record
            seen.add(field)
        image = delta.image
    assert {"topics", "partitions", "brokers", "configs", "features"} <= seen


@pytest.mark.parametrize(
    ("record", "changed"),
    [
        (records.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=77), "next_producer_id"),
        (records.ZkMigrationStateRecord(zk_migration_state=1), "zk_migration_state"),
    ],
)
def test_a_single_value_is_set(record: Message, changed: str) -> None:
    delta = Delta(EMPTY_IMAGE)
    delta.replay(record)
    assert getattr(delta.image, changed) in (77, 1)
    assert getattr(delta.image, changed) != getattr(EMPTY_IMAGE, changed)
    assert named(delta) == {}


def test_controllers_are_registered_by_their_id() -> None:
    delta = Delta(EMPTY_IMAGE)
    for number in (1, 2, 1):
        delta.replay(
            records.RegisterControllerRecord(
                controller_id=number,
                incarnation_id=ACL_ID,
                zk_migration_ready=False,
                end_points=[],
                features=[],
            )
        )
    assert set(delta.image.controllers) == {1, 2}
    assert delta.before.controllers == EMPTY_IMAGE.controllers


def test_position_and_time_are_those_of_the_last_record() -> None:
    delta = Delta(EMPTY_IMAGE)
    delta.at(7, 3, 99)
    assert (delta.image.offset, delta.image.epoch, delta.image.timestamp_ms) == (7, 3, 99)
    assert (delta.before.offset, delta.before.epoch) == (EMPTY_IMAGE.offset, EMPTY_IMAGE.epoch)


def test_removed_topics_are_those_that_were_there_before() -> None:
    created = Delta(EMPTY_IMAGE)
    created.replay(records.TopicRecord(name="t", topic_id=TOPIC_ID))
    assert created.removed_topics == []
    removal = Delta(created.image)
    removal.replay(records.RemoveTopicRecord(topic_id=TOPIC_ID))
    assert [topic.name for topic in removal.removed_topics] == ["t"]
    created.replay(records.RemoveTopicRecord(topic_id=TOPIC_ID))
    assert created.removed_topics == [], "it was not there before"
