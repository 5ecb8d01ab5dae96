"""The consumer group APIs over a connection; the behaviour of groups is tested with the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.metadata.features import GROUP_VERSION
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.records.metadata import FeatureLevelRecord
from tests.broker.worlds.front_world import Denying, Front, Wire

OPTIONS: dict[str, Any] = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "2"}
NO_WORDS = None


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    with Front(monkeypatch, **OPTIONS) as made:
        yield made


def ready(front: Front, level: int = 1) -> Wire:
    """A connection to a coordinator, with a topic and group.version at this level."""
    front.metadata.commit(FeatureLevelRecord(name=GROUP_VERSION, feature_level=level))
    wire = front.connect()
    topic = CreateTopicsRequest.CreatableTopic(
        name="t", num_partitions=2, replication_factor=1, assignments=[], configs=[]
    )
    assert wire.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
    wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0
    return wire


def beat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    given = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**{**given, **fields})


def describe(*groups: str, operations: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)


def error_of(answer: Any) -> tuple[ErrorCode, str | None]:
    return ErrorCode(answer.error_code), answer.error_message


def test_a_member_joins_is_described_and_leaves(front: Front) -> None:
    wire = ready(front)
    answer = wire.ask(beat(), 1)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m", 1, 5000)
    assert answer.assignment.topic_partitions[0].partitions == [0, 1]
    group = wire.ask(describe("g", operations=True), 1).groups[0]
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        1,
        1,
        "uniform",
    )
    member = group.members[0]
    assert (member.client_id, member.client_host, member.member_type) == ("test", "/127.0.0.1", 1)
    assert group.authorized_operations > 0
    assert wire.ask(describe("g"), 0).groups[0].authorized_operations == -(2**31)
    listed = wire.ask(ListGroupsRequest(types_filter=["consumer"]), 5).groups
    assert [(one.group_id, one.group_state, one.group_type) for one in listed] == [
        ("g", "Stable", "consumer")
    ]
    assert wire.ask(beat(member_epoch=-1), 1).member_epoch == -1
    assert wire.ask(describe("g"), 1).groups[0].group_state == "Empty"


def test_refusals_of_the_coordinator_come_with_their_reason(front: Front) -> None:
    wire = ready(front)
    assert error_of(wire.ask(beat(group_id=""), 1)) == (ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    assert error_of(wire.ask(beat(member_epoch=3), 1)) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Consumer group g not found.",
    )
    code, words = error_of(wire.ask(beat(subscribed_topic_regex="("), 1))
    assert code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert words is not None
    assert "missing closing )" in words
    groups = wire.ask(describe("nothing", ""), 1).groups
    assert {(one.group_id, ErrorCode(one.error_code)) for one in groups} == {
        ("nothing", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_GROUP_ID),
    }


def test_without_the_feature_there_are_no_such_groups(front: Front) -> None:
    wire = ready(front, level=0)
    assert error_of(wire.ask(beat(), 1)) == (ErrorCode.UNSUPPORTED_VERSION, NO_WORDS)
    assert error_of(wire.ask(describe("g"), 1).groups[0]) == (ErrorCode.UNSUPPORTED_VERSION, NO_WORDS)


def test_where_the_protocol_is_not_offered_there_are_no_such_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch, None, **OPTIONS, **{"group.coordinator.rebalance.protocols": "classic"}) as front:
        assert error_of(ready(front).ask(beat(), 1)) == (ErrorCode.UNSUPPORTED_VERSION, NO_WORDS)


@pytest.mark.parametrize(
    ("denied", "expected"),
    [
        ((Operation.READ, Resource.GROUP, "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ((Operation.DESCRIBE, Resource.TOPIC, "t"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_joining_requires_read_on_the_group_and_describe_on_its_topics(
    front: Front, denied: tuple[Operation, Resource, str], expected: ErrorCode
) -> None:
    wire = ready(front)
    front.broker.authorizer = Denying(denied)
    assert error_of(wire.ask(beat(), 1)) == (expected, NO_WORDS)
    front.broker.authorizer = Denying()
    assert wire.ask(describe("g"), 1).groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_pattern_stands_only_for_topics_that_the_member_may_see(front: Front) -> None:
    wire = ready(front)
    front.broker.authorizer = Denying((Operation.DESCRIBE, Resource.TOPIC, "t"))
    assert wire.ask(beat(subscribed_topic_names=None, subscribed_topic_regex=".*"), 1).error_code == 0
    topics: set[Uuid] = set()

    def is_given_some() -> bool:
        """A worker resolves the pattern asynchronously."""
        given = wire.ask(beat(member_epoch=1, subscribed_topic_names=None), 1).assignment
        topics.update(one.topic_id for one in (given.topic_partitions if given is not None else ()))
        return bool(topics)

    front.until(is_given_some)
    assert topics == {front.broker.image.topic_ids["__consumer_offsets"]}


def test_groups_with_unauthorized_topics_are_not_described(front: Front) -> None:
    wire = ready(front)
    wire.ask(beat(), 1)
    front.broker.authorizer = Denying((Operation.DESCRIBE, Resource.GROUP, "g"))
    assert error_of(wire.ask(describe("g"), 1).groups[0]) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, NO_WORDS)
    front.broker.authorizer = Denying((Operation.DESCRIBE, Resource.TOPIC, "t"))
    group = wire.ask(describe("g"), 1).groups[0]
    assert error_of(group) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "The group has described topic(s) that the client is not authorized to describe.",
    )
    assert group.members == []
