"""The group APIs over a connection; the behaviour of groups is tested with the coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.broker.coordinators.group_requests import caller_of
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.handlers import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    describe_transactions,
)
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.network.network import Address
from tests.broker.worlds.front_world import Denying, Front, Wire, call_of

OPTIONS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
# More than a chunk for each shard.
MANY = [f"unknown-{number}" for number in range(1_000)]


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    with Front(monkeypatch, None, **OPTIONS) as made:
        yield made


def find(group_id: str = "g", key_type: int = 0) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=group_id, key_type=key_type)


def ready(front: Front) -> Wire:
    """A connection to a coordinator."""
    wire = front.connect()
    front.until(lambda: wire.ask(find(), 3).error_code == 0)
    # It has an error while any partition of __consumer_offsets is loaded.
    front.until(lambda: wire.ask(ListGroupsRequest(), 4).error_code == 0)
    return wire


def join(member_id: str = "", group_id: str = "g", **more: Any) -> JoinGroupRequest:
    fields = {
        "group_id": group_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.Protocol(name="range", metadata=b"")],
        **more,
    }
    return JoinGroupRequest(**fields)


def enter(wire: Wire, group_id: str = "g") -> str:
    """Joins as the only member; the group is stable."""
    member_id: str = wire.ask(join(group_id=group_id), 9).member_id
    joined = wire.ask(join(member_id, group_id), 9)
    assert joined.error_code == 0
    wire.ask(sync(member_id, joined.generation_id, group_id), 5)
    return member_id


def sync(member_id: str, generation: int, group_id: str = "g") -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequest.Assignment(member_id=member_id, assignment=b"all")],
    )


# FindCoordinator


def test_the_first_request_creates_the_topic_with_apache_kafkas_settings(front: Front) -> None:
    wire = front.connect()
    answer = wire.ask(find(), 3)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )
    assert answer.error_message == "The coordinator is not available."
    answer = wire.ask(find(), 3)
    assert (answer.error_code, answer.node_id, answer.error_message) == (0, 1, "NONE")
    image = front.broker.image
    topic = image.topic_named(CONSUMER_OFFSETS)
    assert topic is not None
    assert len(topic.partitions) == 4
    asked = [
        request.topics[0]
        for request, _, _ in front.metadata.asked
        if isinstance(request, CreateTopicsRequest)
    ]
    assert [one.name for one in asked] == [CONSUMER_OFFSETS]
    assert {one.name: one.value for one in asked[0].configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert wire.ask(find(key_type=1), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert wire.ask(find(key_type=1), 3).error_code == 0
    assert front.broker.image.topic_named(TRANSACTION_STATE) is not None


def test_many_are_found_at_once(front: Front) -> None:
    wire = ready(front)
    answer = wire.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 6)
    assert [(one.key, one.error_code, one.node_id) for one in answer.coordinators] == [
        ("g", 0, 1),
        ("h", 0, 1),
    ]


def test_a_topic_that_cannot_be_created_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Front(monkeypatch, None, **{**OPTIONS, "offsets.topic.replication.factor": "3"}) as front:
        refused = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "there is 1 broker")
        front.metadata.answers[CreateTopicsRequest] = refused
        wire = front.connect()
        assert wire.ask(find(), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert wire.ask(find(), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "__consumer_offsets" in caplog.text
    assert "there is 1 broker" in caplog.text


# Members


def test_a_member_sends_heartbeats_and_leaves(front: Front) -> None:
    wire = ready(front)
    member_id = enter(wire)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert wire.ask(beat, 4).error_code == 0
    described = wire.ask(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 6).groups[0]
    assert (described.group_state, described.members[0].member_id) == ("Stable", member_id)
    assert described.members[0].client_host == "/127.0.0.1"
    assert described.authorized_operations > 0
    listed = wire.ask(ListGroupsRequest(types_filter=["Classic"], states_filter=["stable"]), 5).groups
    assert [(one.group_id, one.group_state, one.group_type) for one in listed] == [("g", "Stable", "classic")]
    assert wire.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 2).error_code == 0
    assert wire.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 2).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )
    deleted = wire.ask(DeleteGroupsRequest(groups_names=["g", "g", "h"]), 2).results
    assert [(one.group_id, one.error_code) for one in deleted] == [
        ("g", 0),
        ("h", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert wire.ask(ListGroupsRequest(), 5).groups == []


@pytest.mark.parametrize("version", [0, 6, 7, 9])
def test_a_refused_join_has_the_null_protocol_of_its_version(front: Front, version: int) -> None:
    wire = ready(front)
    answer = wire.ask(join("m", session_timeout_ms=1), version)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (answer.member_id, answer.generation_id) == ("m", -1)
    assert answer.protocol_name == (None if version >= 7 else "")


def test_a_waiting_member_does_not_delay_shutdown(front: Front) -> None:
    wire = ready(front)
    first = enter(wire)
    other = front.connect()
    member_id = other.ask(join(), 9).member_id
    other.send(request_bytes(join(member_id), 9))
    assert other.is_silent()
    front.broker.groups.stop()
    assert other.frame(), "it gets COORDINATOR_NOT_AVAILABLE"
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first)
    assert wire.ask(beat, 4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def request_bytes(request: Message, version: int) -> bytes:
    from barnabas.protocol.frame import write_request

    return write_request(request, version, 7, "test")


def test_pipelined_requests_of_a_member_are_answered_in_order(front: Front) -> None:
    """Two members on one connection: the second join is read when the first one is answered."""
    wire = ready(front)
    member_id = enter(wire)
    wire.send(
        request_bytes(join(member_id), 9)
        + request_bytes(sync(member_id, 2), 5)
        + request_bytes(HeartbeatRequest(group_id="g", generation_id=2, member_id=member_id), 4)
    )
    assert len(wire.frames(3)) == 3


# Authorization


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (join("m"), 9),
        (sync("m", 1), 5),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        (LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id="m")]), 5),
    ],
    ids=["join", "sync", "heartbeat", "leave"],
)
def test_members_need_read_on_the_group(front: Front, request_: Message, version: int) -> None:
    wire = ready(front)
    front.broker.authorizer = Denying((Operation.READ, Resource.GROUP, "g"))
    assert wire.ask(request_, version).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_only_authorized_groups_are_described(front: Front) -> None:
    wire = ready(front)
    for group_id in ("g", "h"):
        enter(wire, group_id)
    describe, cluster = Operation.DESCRIBE, (Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    front.broker.authorizer = Denying((describe, Resource.GROUP, "g"), cluster)
    assert [one.group_id for one in wire.ask(ListGroupsRequest(), 5).groups] == ["h"]
    groups = wire.ask(DescribeGroupsRequest(groups=["h", "g"]), 5).groups
    assert [(one.group_id, one.error_code) for one in groups] == [
        ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("h", 0),
    ]
    found = wire.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4).coordinators
    assert [one.error_code for one in found] == [ErrorCode.GROUP_AUTHORIZATION_FAILED, 0]
    assert wire.ask(find("g"), 1).error_message == "Group authorization failed."
    front.broker.authorizer = Denying((describe, Resource.GROUP, "g"))
    assert len(wire.ask(ListGroupsRequest(), 5).groups) == 2, "DESCRIBE on the cluster shows all groups"
    front.broker.authorizer = Denying((describe, Resource.TRANSACTIONAL_ID, "t"))
    assert wire.ask(find("t", 1), 3).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


RESULTS = ("groups", "results", "transaction_states")


def look_ups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions whose shards are queried from now on."""
    queried: list[int] = []
    submit_to_partition = Shards.submit_to_partition

    def counted(shards: Shards[Any], index: int, decide: Any) -> Any:
        queried.append(index)
        return submit_to_partition(shards, index, decide)

    monkeypatch.setattr(Shards, "submit_to_partition", counted)
    return queried


@pytest.mark.parametrize(
    ("api", "request_", "version"),
    [
        (describe_groups, DescribeGroupsRequest(groups=MANY), 6),
        (
            consumer_group_describe,
            ConsumerGroupDescribeRequest(group_ids=MANY, include_authorized_operations=True),
            1,
        ),
        (delete_groups, DeleteGroupsRequest(groups_names=MANY), 2),
        (describe_transactions, DescribeTransactionsRequest(transactional_ids=MANY), 0),
    ],
    ids=["describe", "consumer describe", "delete", "transactions"],
)
def test_many_ids_are_looked_up_in_chunks(
    front: Front, monkeypatch: pytest.MonkeyPatch, api: Any, request_: Message, version: int
) -> None:
    """DescribeGroups of 80,000 unknown groups took seconds: it queried a coordinator for each of them."""
    wire = ready(front)
    wire.ask(find(key_type=1), 3)
    assert wire.ask(find(key_type=1), 3).error_code == 0
    monkeypatch.setattr(consumer_group_describe, "check_enabled", lambda broker: None)
    queried = look_ups(monkeypatch)
    answer = front.finish(
        front.broker._work.start(api.handle(front.broker, request_, call_of(api.KEY, version)))[0]
    )
    (results,) = (getattr(answer, name) for name in RESULTS if hasattr(answer, name))
    assert len(results) == len(MANY)
    assert {result.error_code for result in results} <= {
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
    sizes = Counter(front.broker.groups.partition_for(key) for key in MANY)
    assert Counter(queried) == {index: -(-size // CHUNK_ELEMENTS) for index, size in sizes.items()}


def test_large_groups_share_no_look_up(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk ends when enough members are described; the rest of it is looked up again."""
    wire = ready(front)
    group_ids = [f"g{number}" for number in range(20)]
    for group_id in group_ids:
        enter(wire, group_id)
    monkeypatch.setattr(describe_groups, "MEMBERS_PER_LOOK_UP", 2)
    queried = look_ups(monkeypatch)
    groups = wire.ask(DescribeGroupsRequest(groups=group_ids), 6).groups
    assert [(group.group_id, len(group.members)) for group in groups] == [(one, 1) for one in group_ids]
    sizes = Counter(front.broker.groups.partition_for(group_id) for group_id in group_ids)
    assert Counter(queried) == {index: -(-size // 2) for index, size in sizes.items()}


def test_only_authorized_groups_are_deleted(front: Front) -> None:
    wire = ready(front)
    front.broker.authorizer = Denying((Operation.DELETE, Resource.GROUP, "g"))
    results = wire.ask(DeleteGroupsRequest(groups_names=["g", "h"]), 2).results
    assert [(one.group_id, one.error_code) for one in results] == [
        ("h", ErrorCode.GROUP_ID_NOT_FOUND),
        ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]


# Helpers of handlers


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1:20%eth0", "/fe80:0:0:0:0:0:1:20"),
    ],
)
def test_addresses_are_formatted_as_in_java(host: str, shown: str) -> None:
    call = call_of(11, 9)
    call.peer = Address(host, 5000)
    assert caller_of(call) == ("test", shown, 9)


def test_the_response_to_a_disconnected_member_is_dropped(front: Front) -> None:
    wire = ready(front)
    first = enter(wire)
    other = front.connect()
    member_id = other.ask(join(), 9).member_id
    other.send(request_bytes(join(member_id), 9))
    assert other.is_silent()
    other.sock.close()
    front.serve_for_a_while()
    joined = wire.ask(join(first), 9)
    assert (joined.generation_id, len(joined.members)) == (2, 2), "its session has not expired"
    beat = HeartbeatRequest(group_id="g", generation_id=2, member_id=first)
    assert wire.ask(beat, 4).error_code == 0


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_since_version_5_a_sync_names_type_and_protocol(front: Front, missing: str) -> None:
    wire = ready(front)
    member_id = wire.ask(join(), 9).member_id
    generation = wire.ask(join(member_id), 9).generation_id
    request = sync(member_id, generation)
    setattr(request, missing, None)
    assert wire.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert wire.ask(request, 4).error_code == ErrorCode.NONE
