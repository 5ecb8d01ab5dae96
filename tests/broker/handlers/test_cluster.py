"""DescribeCluster, DescribeTopicPartitions, DescribeQuorum, UpdateFeatures, UnregisterBroker."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.handlers import (
    add_raft_voter,
    describe_cluster,
    describe_quorum,
    describe_topic_partitions,
    remove_raft_voter,
)
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.routes import Role, routes_for
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.config.option import Mode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.records import metadata as records
from barnabas.runtime.loop.promise import Promise
from tests.broker.handlers.test_metadata import register, topic
from tests.broker.worlds.front_world import CLUSTER_ID, Denying, FakeBroker, call_of, settled


@pytest.fixture
def broker() -> Any:
    broker = FakeBroker()
    register(broker, 1)
    return broker


def cluster(broker: Any, version: int, listener: str = "PLAINTEXT", **fields: Any) -> Any:
    fields = {"include_cluster_authorized_operations": False, **fields}
    return describe_cluster.handle(
        broker, DescribeClusterRequest(**fields), call_of(60, version, listener=listener)
    )


def test_brokers_of_the_cluster(broker: Any) -> None:
    register(broker, 2, fenced=True)
    answer = cluster(broker, 0, include_cluster_authorized_operations=True)
    assert (answer.cluster_id, answer.controller_id, answer.cluster_authorized_operations) == (
        CLUSTER_ID,
        1,
        8096,
    )
    assert [(one.broker_id, one.host, one.port, one.rack) for one in answer.brokers] == [
        (1, "b1", 9092, "r1")
    ]
    assert cluster(broker, 1).cluster_authorized_operations == -(2**31)
    every = cluster(broker, 2, include_fenced_brokers=True)
    assert [(one.broker_id, one.is_fenced) for one in every.brokers] == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("requested", "code", "message"),
    [
        (
            2,
            114,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (7, 115, "Unsupported endpoint type 7"),
    ],
)
def test_endpoints_of_another_type(broker: Any, requested: int, code: int, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        cluster(broker, 1, endpoint_type=requested)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_controllers_return_controllers(broker: Any) -> None:
    broker.metadata.commit(
        records.RegisterControllerRecord(
            controller_id=1,
            incarnation_id=ZERO_UUID,
            zk_migration_ready=False,
            end_points=[
                records.RegisterControllerRecord.ControllerEndpoint(
                    name="CONTROLLER", host="c1", port=9093, security_protocol=0
                )
            ],
            features=[],
        )
    )
    answer = cluster(broker, 1, "CONTROLLER", endpoint_type=2)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(1, "c1", 9093)]
    assert (answer.endpoint_type, answer.controller_id) == (2, 1)
    # Version 0 always requests brokers.
    with pytest.raises(KafkaError) as refused:
        cluster(broker, 0, "CONTROLLER")
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def pages(broker: Any, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = settled(describe_topic_partitions.handle(broker, request, call_of(75, 0)))
    described = [
        (one.name, one.error_code, [each.partition_index for each in one.partitions]) for one in answer.topics
    ]
    after = answer.next_cursor
    return described, None if after is None else (after.topic_name, after.partition_index)


def test_topics_page_by_page(broker: Any) -> None:
    topic(broker, "a", {}, {}, {})
    topic(broker, "b", {})
    assert pages(broker) == ([("a", 0, [0, 1, 2]), ("b", 0, [0])], None)
    assert pages(broker, limit=2) == ([("a", 0, [0, 1])], ("a", 2))
    assert pages(broker, limit=2, cursor=("a", 2)) == ([("a", 0, [2]), ("b", 0, [0])], None)
    assert pages(broker, limit=3) == ([("a", 0, [0, 1, 2])], ("b", 0))
    assert pages(broker, "a", limit=0) == ([("a", 0, [0])], ("a", 1))
    assert pages(broker, "a", cursor=("a", 9)) == ([("a", 0, [])], None)
    assert pages(broker, "zzz", "a", "b/d") == ([("a", 0, [0, 1, 2]), ("b/d", 17, []), ("zzz", 3, [])], None)


def test_a_page_never_has_more_than_the_broker_allows() -> None:
    broker: Any = FakeBroker(max_request_partition_size_limit="1")
    register(broker, 1)
    topic(broker, "a", {}, {})
    assert pages(broker) == ([("a", 0, [0])], ("a", 1))


def test_cursors_that_make_no_sense(broker: Any) -> None:
    topic(broker, "a")
    for cursor in (("b", 0), ("a", -1)):
        with pytest.raises(KafkaError) as refused:
            pages(broker, "a", cursor=cursor)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="a")])
    answer = describe_topic_partitions.refuse(request, ErrorCode.INVALID_REQUEST, "")
    assert [(one.name, one.error_code, one.topic_id) for one in answer.topics] == [("a", 42, ZERO_UUID)]


def test_partitions_with_eligible_leaders(broker: Any) -> None:
    """M-D3"""
    topic(
        broker,
        "a",
        {"replicas": [1, 2], "isr": [], "leader": -1, "eligible_leader_replicas": [2], "last_known_elr": [1]},
    )
    request = DescribeTopicPartitionsRequest(topics=[])
    (found,) = settled(describe_topic_partitions.handle(broker, request, call_of(75, 0))).topics
    (one,) = found.partitions
    assert (one.error_code, one.leader_id, one.eligible_leader_replicas, one.last_known_elr) == (
        0,
        -1,
        [2],
        [1],
    )
    assert (one.offline_replicas, found.topic_authorized_operations) == ([2], 3576)


def test_topics_that_may_not_be_seen(broker: Any) -> None:
    topic(broker, "a")
    broker.authorizer = Denying((Operation.DESCRIBE, Resource.TOPIC, "a"))
    assert pages(broker) == ([], None)
    assert pages(broker, "a") == ([("a", 29, [])], None)


def test_the_quorum_is_described_by_the_metadata_side(broker: Any) -> None:
    request = DescribeQuorumRequest(topics=[])
    response: Any = settled(describe_quorum.handle(broker, request, call_of(55, 2)))
    assert response.error_code == 0
    broker.authorizer = Denying((Operation.DESCRIBE, Resource.CLUSTER, None))
    with pytest.raises(KafkaError) as refused:
        describe_quorum.handle(broker, request, call_of(55, 2))
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    "request_",
    [
        AddRaftVoterRequest(
            cluster_id=None, timeout_ms=1, voter_id=2, voter_directory_id=ZERO_UUID, listeners=[]
        ),
        RemoveRaftVoterRequest(cluster_id=None, voter_id=2, voter_directory_id=ZERO_UUID),
        DescribeQuorumRequest(topics=[]),
    ],
)
def test_a_broker_forwards_what_is_about_the_quorum_and_a_controller_responds_itself(
    broker: Any, request_: Any
) -> None:
    # KIP-853
    key = request_.schema.key
    handler = {55: describe_quorum, 80: add_raft_voter, 81: remove_raft_voter}[key]
    response: Any = object()
    broker.metadata.answers[type(request_)] = Promise.of(response)
    assert settled(handler.handle(broker, request_, call_of(key, 0))) is response
    assert broker.metadata.asked == [(request_, 0, "User:ANONYMOUS")]
    broker.metadata.asked.clear()
    assert settled(handler.handle(broker, request_, call_of(key, 0, listener="CONTROLLER"))) is response
    # Not through the channel, which would look for the active controller.
    assert broker.metadata.asked == [(request_, 0, "")]
    operation = Operation.DESCRIBE if key == 55 else Operation.ALTER
    broker.authorizer = Denying((operation, Resource.CLUSTER, None))
    with pytest.raises(KafkaError, match=f"needs {operation.name} permission"):
        handler.handle(broker, request_, call_of(key, 0))


@pytest.mark.parametrize(
    ("request_", "response", "operation"),
    [
        (
            UpdateFeaturesRequest(feature_updates=[]),
            UpdateFeaturesResponse(throttle_time_ms=0, error_code=0, error_message=None),
            Operation.ALTER,
        ),
        (
            UnregisterBrokerRequest(broker_id=9),
            UnregisterBrokerResponse(throttle_time_ms=0, error_code=102, error_message="not there"),
            Operation.ALTER,
        ),
        (
            BrokerHeartbeatRequest(
                broker_id=1, current_metadata_offset=1, want_fence=False, want_shut_down=False
            ),
            BrokerHeartbeatResponse(throttle_time_ms=0, error_code=0, should_shut_down=False),
            Operation.CLUSTER_ACTION,
        ),
    ],
)
def test_requests_for_the_controller_are_forwarded(
    broker: Any, request_: Any, response: Any, operation: Operation
) -> None:
    broker.metadata.answers[type(request_)] = Promise.of(response)
    context = call_of(request_.schema.key, 0)
    route = routes_for(Mode.KRAFT, Role.CONTROLLER, broker.settings, Metrics())[request_.schema.key]
    assert settled(route.handle(broker, request_, context)) is response
    assert broker.metadata.asked == [(request_, 0, "User:ANONYMOUS")]
    broker.authorizer = Denying((operation, Resource.CLUSTER, None))
    with pytest.raises(KafkaError) as refused:
        route.handle(broker, request_, context)
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_describing_controllers_requires_alter_on_the_cluster() -> None:
    broker: Any = FakeBroker()
    broker.authorizer = Denying((Operation.ALTER, Resource.CLUSTER, None))
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    with pytest.raises(KafkaError, match="needs ALTER permission"):
        describe_cluster.handle(broker, request, call_of(60, 1, listener="CONTROLLER"))
    request.endpoint_type = 1
    assert describe_cluster.handle(broker, request, call_of(60, 1)).error_code == 0
