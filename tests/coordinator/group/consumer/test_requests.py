"""Invalid heartbeats are rejected with Apache Kafka's messages."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.config import BROKER
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ClassicMemberMetadata, ConsumerMember
from barnabas.coordinator.group.consumer.options import MigrationPolicy, assignors_of, migration_policy
from barnabas.coordinator.group.consumer.requests import check_heartbeat
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

JOINING: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 1,
    "subscribed_topic_names": [],
    "topic_partitions": [],
}
LIVING: dict[str, Any] = {"member_epoch": 1}


def checked(version: int = 1, **fields: Any) -> None:
    request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", **fields})
    check_heartbeat(request, version, ("uniform", "range"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({**JOINING, "member_id": ""}, "MemberId can't be empty."),
        ({**LIVING, "member_id": " "}, "MemberId can't be empty."),
        ({**LIVING, "group_id": ""}, "GroupId can't be empty."),
        ({**LIVING, "instance_id": ""}, "InstanceId can't be empty."),
        ({**LIVING, "rack_id": "\t"}, "RackId can't be empty."),
        ({**JOINING, "rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({**JOINING, "topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {**JOINING, "subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_inconsistent_requests_are_invalid(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        checked(**fields)
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_an_unsupported_assignor_is_rejected() -> None:
    with pytest.raises(KafkaError) as refused:
        checked(**JOINING, server_assignor="sticky")
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert refused.value.message == (
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    )


@pytest.mark.parametrize(
    "fields",
    [
        JOINING,
        {**JOINING, "subscribed_topic_names": None, "subscribed_topic_regex": "x"},
        {**JOINING, "server_assignor": "range"},
        LIVING,
        {"member_epoch": -1},
        {"member_epoch": -2, "instance_id": "i"},
    ],
)
def test_valid_requests_are_accepted(fields: dict[str, Any]) -> None:
    checked(**fields)


def test_only_version_0_leaves_the_member_id_to_the_coordinator() -> None:
    checked(0, **{**JOINING, "member_id": ""})
    with pytest.raises(KafkaError):
        checked(0, **{**LIVING, "member_id": ""})
    with pytest.raises(KafkaError):
        checked(0, member_epoch=-1, member_id="")


def settings(**configs: str) -> Any:
    return BROKER.parse(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
    )


def test_assignors_may_be_configured_by_class_name() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    named = settings(group_consumer_assignors=f"{package}.RangeAssignor,uniform")
    assert list(assignors_of(named)) == ["range", "uniform"]
    with pytest.raises(ValueError, match="only uniform, range are allowed"):
        assignors_of(settings(group_consumer_assignors="com.example.Mine"))


@pytest.mark.parametrize(
    ("name", "upgrade", "downgrade"),
    [
        ("bidirectional", True, True),
        ("UPGRADE", True, False),
        ("Downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_migration_policies(name: str, upgrade: bool, downgrade: bool) -> None:
    policy = migration_policy(settings(group_consumer_migration_policy=name))
    assert isinstance(policy, MigrationPolicy)
    assert (policy.allows_upgrade, policy.allows_downgrade) == (upgrade, downgrade)


def test_offsets_may_be_committed_without_a_member_only_while_there_is_none() -> None:
    group = ConsumerGroup("g")

    def refusal(member_id: str, epoch: int, *, transactional: bool = False, version: int = 9) -> ErrorCode:
        try:
            group.validate_offset_commit(
                member_id, None, epoch, transactional=transactional, api_version=version
            )
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    assert refusal("", -1) is ErrorCode.NONE
    assert refusal("", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    group.update_member(ConsumerMember("a", member_epoch=3))
    assert refusal("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal("", -1, transactional=True) is ErrorCode.NONE
    assert refusal("x", -1, transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal("a", 3) is ErrorCode.NONE
    assert refusal("a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal("a", 3, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert refusal("a", 3, version=3, transactional=True) is ErrorCode.NONE
    classic = ClassicMemberMetadata(10_000, ())
    group.update_member(ConsumerMember("c", member_epoch=3, classic=classic))
    assert refusal("c", 3, version=8) is ErrorCode.NONE
    assert refusal("c", 2, version=8) is ErrorCode.ILLEGAL_GENERATION


def test_offsets_may_be_fetched_without_a_member() -> None:
    group = ConsumerGroup("g")
    group.update_member(ConsumerMember("a", member_epoch=3))
    group.validate_offset_fetch(None, -1)
    group.validate_offset_fetch("a", 3)
    for member_id, epoch, code in (
        ("a", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as refused:
            group.validate_offset_fetch(member_id, epoch)
        assert refused.value.code is code
