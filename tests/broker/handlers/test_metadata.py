"""Metadata: the responses of Apache Kafka 4.1.0."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.broker.handlers import metadata
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.records import metadata as records
from tests.broker.worlds.front_world import CLUSTER_ID, Denying, FakeBroker, call_of, settled

NOT_ASKED = -(2**31)


def register(
    broker: FakeBroker, broker_id: int, *, fenced: bool = False, listener: str = "PLAINTEXT"
) -> None:
    broker.metadata.commit(
        records.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=ZERO_UUID,
            broker_epoch=1,
            end_points=[
                records.RegisterBrokerRecord.BrokerEndpoint(
                    name=listener, host=f"b{broker_id}", port=9092, security_protocol=0
                )
            ],
            features=[],
            rack="r1",
            fenced=fenced,
        )
    )


def topic(broker: FakeBroker, name: str, *partitions: dict[str, Any]) -> Uuid:
    topic_id = Uuid(name.encode().rjust(16, b"\0")[-16:])
    broker.metadata.commit(
        records.TopicRecord(name=name, topic_id=topic_id),
        *(
            records.PartitionRecord(
                **{
                    "partition_id": number,
                    "topic_id": topic_id,
                    "replicas": [1],
                    "isr": [1],
                    "removing_replicas": [],
                    "adding_replicas": [],
                    "leader": 1,
                    "leader_epoch": 3,
                    "partition_epoch": 0,
                    **fields,
                }
            )
            for number, fields in enumerate(partitions or ({},))
        ),
    )
    return topic_id


@pytest.fixture
def broker() -> Any:
    broker = FakeBroker()
    register(broker, 1)
    return broker


def ask(broker: Any, version: int, *names: str | Uuid | None, **fields: Any) -> Any:
    topics: Any = [
        MetadataRequest.Topic(name=None, topic_id=one)
        if isinstance(one, Uuid)
        else MetadataRequest.Topic(name=one)
        for one in names
    ]
    if fields.pop("all_topics", False):
        topics = None
    fields = {"allow_auto_topic_creation": False, **fields}
    return settled(metadata.handle(broker, MetadataRequest(topics=topics, **fields), call_of(3, version)))


def test_brokers_cluster_and_a_live_controller(broker: Any) -> None:
    register(broker, 2, fenced=True)
    register(broker, 3, listener="OTHER")
    answer = ask(broker, 12)
    assert [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers] == [(1, "b1", 9092, "r1")]
    assert answer.cluster_id == CLUSTER_ID
    assert answer.controller_id in (1, 3)
    assert answer.topics == []


def test_the_controller_is_another_broker_now_and_then(broker: Any) -> None:
    for broker_id in (2, 3, 4):
        register(broker, broker_id)
    assert {ask(broker, 12).controller_id for _ in range(100)} == {1, 2, 3, 4}


def test_a_cluster_without_live_brokers_has_no_controller() -> None:
    assert ask(FakeBroker(), 12).controller_id == -1


@pytest.mark.parametrize("version", [0, 1, 5, 9, 13])
def test_a_topic_with_its_partitions(broker: Any, version: int) -> None:
    topic_id = topic(broker, "alpha", {}, {"leader_epoch": 4})
    answer = ask(broker, version, "alpha")
    (found,) = answer.topics
    assert (found.error_code, found.name, found.topic_id, found.is_internal) == (0, "alpha", topic_id, False)
    assert [(one.partition_index, one.leader_id, one.leader_epoch) for one in found.partitions] == [
        (0, 1, 3),
        (1, 1, 4),
    ]
    assert [(one.replica_nodes, one.isr_nodes, one.offline_replicas) for one in found.partitions] == [
        ([1], [1], [])
    ] * 2
    # Fields that a version does not have are not encoded.
    assert type(answer).decode(answer.encode(version), version).topics[0].name == "alpha"


def test_no_topics_means_all_in_version_0_and_none_afterwards(broker: Any) -> None:
    topic(broker, "b")
    topic(broker, "a")
    assert [one.name for one in ask(broker, 0).topics] == ["a", "b"]
    assert ask(broker, 1).topics == []
    assert [one.name for one in ask(broker, 12, all_topics=True).topics] == ["a", "b"]


def test_internal_topics_are_marked(broker: Any) -> None:
    topic(broker, "__consumer_offsets")
    assert [one.is_internal for one in ask(broker, 9, "__consumer_offsets").topics] == [True]


def test_unknown_and_impossible_topics(broker: Any) -> None:
    answer = ask(broker, 12, "nope", "bad/name", "nope")
    assert [(one.error_code, one.name, one.topic_id) for one in answer.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nope", ZERO_UUID),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "bad/name", ZERO_UUID),
    ]
    assert not broker.metadata.asked


def test_topics_by_id(broker: Any) -> None:
    topic_id, unknown = topic(broker, "alpha"), Uuid(b"x" * 16)
    answer = ask(broker, 12, unknown, topic_id)
    assert [(one.error_code, one.name, one.topic_id) for one in answer.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown),
        (ErrorCode.NONE, "alpha", topic_id),
    ]


def test_ids_and_null_names_are_refused_before_version_12(broker: Any) -> None:
    with pytest.raises(KafkaError, match="Topic name can not be null for version 11"):
        ask(broker, 11, None)
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="alpha", topic_id=Uuid(b"x" * 16))])
    with pytest.raises(KafkaError, match="Topic IDs are not supported in requests for version 10"):
        settled(metadata.handle(broker, request, call_of(3, 10)))
    refused = metadata.refuse(request, ErrorCode.INVALID_REQUEST, "")
    assert [(one.error_code, one.name, one.topic_id) for one in refused.topics] == [(42, "alpha", b"x" * 16)]
    assert (refused.brokers, refused.controller_id, refused.cluster_id) == ([], -1, None)
    nameless = metadata.refuse(
        MetadataRequest(topics=[MetadataRequest.Topic(name=None)]), ErrorCode.INVALID_REQUEST, ""
    )
    assert [topic.name for topic in nameless.topics] == [""]


def test_a_first_request_makes_a_topic_and_says_unknown(broker: Any) -> None:
    """M-A3"""
    answer = ask(broker, 12, "fresh", "bad/name", allow_auto_topic_creation=True)
    assert [(one.error_code, one.name) for one in answer.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "fresh"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "bad/name"),
    ]
    ((request, _, principal),) = broker.metadata.asked
    assert isinstance(request, CreateTopicsRequest)
    assert [(one.name, one.num_partitions, one.replication_factor) for one in request.topics] == [
        ("fresh", 1, 1)
    ]
    assert principal == "User:ANONYMOUS"
    assert [one.error_code for one in ask(broker, 12, "fresh").topics] == [0]


def test_no_topic_is_created_if_auto_creation_is_disabled() -> None:
    broker: Any = FakeBroker(auto_create_topics_enable="false")
    register(broker, 1)
    assert [one.error_code for one in ask(broker, 12, "fresh", allow_auto_topic_creation=True).topics] == [3]
    assert not broker.metadata.asked


def test_a_leader_that_is_not_there(broker: Any) -> None:
    topic(broker, "t", {"leader": -1}, {"leader": 2, "replicas": [2, 1], "isr": [2]})
    register(broker, 2, listener="OTHER")
    partitions = ask(broker, 6, "t").topics[0].partitions
    assert [(one.error_code, one.leader_id) for one in partitions] == [
        (ErrorCode.LEADER_NOT_AVAILABLE, -1),
        (ErrorCode.LISTENER_NOT_FOUND, -1),
    ]
    assert partitions[1].offline_replicas == [2]
    assert [one.error_code for one in ask(broker, 5, "t").topics[0].partitions] == [
        ErrorCode.LEADER_NOT_AVAILABLE
    ] * 2


def test_version_0_leaves_out_replicas_that_cannot_be_reached(broker: Any) -> None:
    topic(broker, "t", {"replicas": [1, 2], "isr": [1, 2]})
    register(broker, 2, fenced=True)
    (old,) = ask(broker, 0, "t").topics[0].partitions
    assert (old.error_code, old.replica_nodes, old.isr_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1], [1])
    (new,) = ask(broker, 1, "t").topics[0].partitions
    assert (new.error_code, new.replica_nodes, new.isr_nodes, new.offline_replicas) == (
        0,
        [1, 2],
        [1, 2],
        [2],
    )


def test_a_replica_in_a_lost_directory_is_offline(broker: Any) -> None:
    lost, known = Uuid(bytes(15) + b"\2"), Uuid(b"d" * 16)
    topic(broker, "t", {"directories": [lost]}, {"directories": [known]})
    assert [one.offline_replicas for one in ask(broker, 12, "t").topics[0].partitions] == [[1], []]


def test_authorized_operations_are_included_on_request(broker: Any) -> None:
    topic(broker, "t")
    answer = ask(
        broker,
        8,
        "t",
        "nope",
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert [one.topic_authorized_operations for one in answer.topics] == [3576, 3576]
    assert answer.cluster_authorized_operations == 8096
    answer = ask(broker, 12, "t")
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED
    assert answer.cluster_authorized_operations == NOT_ASKED


def test_topics_that_may_not_be_seen(broker: Any) -> None:
    topic_id = topic(broker, "secret")
    topic(broker, "open")
    broker.authorizer = Denying((Operation.DESCRIBE, Resource.TOPIC, "secret"))
    assert [one.name for one in ask(broker, 12, all_topics=True).topics] == ["open"]
    answer = ask(broker, 12, "secret", "open")
    assert [(one.name, one.error_code, one.topic_id) for one in answer.topics if one.error_code] == [
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID)
    ]
    (by_id,) = ask(broker, 12, topic_id).topics
    assert (by_id.name, by_id.error_code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_topics_that_may_not_be_created(broker: Any) -> None:
    broker.authorizer = Denying(
        (Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME), (Operation.CREATE, Resource.TOPIC, "fresh")
    )
    answer = ask(broker, 12, "fresh", "allowed", allow_auto_topic_creation=True)
    assert {one.name: one.error_code for one in answer.topics} == {
        "fresh": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "allowed": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
