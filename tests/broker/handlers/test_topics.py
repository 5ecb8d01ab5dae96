"""CreateTopics, CreatePartitions, DeleteTopics: what the broker decides before it forwards."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.broker.handlers import create_partitions, create_topics, delete_topics
from barnabas.broker.metadata.image_waits import ImageWaits
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import Timers
from tests.broker.handlers.test_metadata import register, topic
from tests.broker.worlds.front_world import Denying, FakeBroker, call_of, settled
from tests.broker.worlds.steps import begun


@pytest.fixture
def broker() -> Any:
    broker = FakeBroker()
    register(broker, 1)
    return broker


def create(broker: Any, *names: str, version: int = 7) -> Any:
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            for name in names
        ]
    )
    return settled(create_topics.handle(broker, request, call_of(19, version))).topics


def test_topics_are_created_by_the_controller(broker: Any) -> None:
    """M-A2"""
    assert [(one.name, one.error_code) for one in create(broker, "a", "b")] == [("a", 0), ("b", 0)]
    ((request, version, principal),) = broker.metadata.asked
    assert [one.name for one in request.topics] == ["a", "b"]
    assert (version, principal) == (7, "User:ANONYMOUS")


def test_a_response_waits_until_this_broker_shows_the_topic(broker: Any) -> None:
    """Of a request that was forwarded: the controller knows the topic before this broker does."""
    broker.image_waits = waits = ImageWaits(broker.clock, Timers())
    broker.metadata.install(waits)
    result = CreateTopicsResponse.CreatableTopicResult(name="later", error_code=0, error_message=None)
    answer = CreateTopicsResponse(throttle_time_ms=0, topics=[result])
    broker.metadata.answers[CreateTopicsRequest] = Promise.of(answer)
    wanted = CreateTopicsRequest.CreatableTopic(
        name="later", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    checked = CreateTopicsRequest(topics=[wanted], validate_only=True)
    assert begun(create_topics.handle(broker, checked, call_of(19, 7))) == answer
    response = begun(create_topics.handle(broker, CreateTopicsRequest(topics=[wanted]), call_of(19, 7)))
    assert not response.done
    topic(broker, "later")
    assert response.done


def test_a_name_twice_and_the_metadata_log_are_refused(broker: Any) -> None:
    results = create(broker, "dup", "one", "dup", "__cluster_metadata")
    assert [(one.name, one.error_code, one.error_message) for one in results] == [
        ("one", 0, None),
        ("dup", 42, "Duplicate topic name."),
        ("__cluster_metadata", 42, "Creation of internal topic __cluster_metadata is prohibited."),
    ]
    assert [(one.num_partitions, one.replication_factor, one.configs) for one in results[1:]] == [
        (-1, -1, [])
    ] * 2
    assert create(broker) == []


def test_unauthorized_creation_and_hidden_configs(broker: Any) -> None:
    broker.authorizer = Denying(
        (Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME),
        (Operation.CREATE, Resource.TOPIC, "no"),
        (Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "blind"),
    )
    results = {one.name: one for one in create(broker, "no", "blind", "yes")}
    assert (results["no"].error_code, results["no"].error_message) == (29, "Authorization failed.")
    blind = results["blind"]
    assert (blind.error_code, blind.topic_config_error_code, blind.num_partitions) == (0, 29, -1)
    assert (results["yes"].topic_config_error_code, results["yes"].num_partitions) == (0, 1)


def test_a_controller_that_fails_fails_every_topic(broker: Any) -> None:
    broker.metadata.answers[CreateTopicsRequest] = KafkaError(ErrorCode.NOT_CONTROLLER, "busy")
    with pytest.raises(KafkaError, match="busy"):
        create(broker, "a")
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name="a", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
        ]
    )
    answer = create_topics.refuse(request, ErrorCode.NOT_CONTROLLER, "busy")
    assert [(one.name, one.error_code, one.error_message) for one in answer.topics] == [("a", 41, "busy")]


def grow(broker: Any, *names: str) -> Any:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name=name, count=3, assignments=None) for name in names],
        timeout_ms=1,
        validate_only=True,
    )
    return settled(create_partitions.handle(broker, request, call_of(37, 3))).results


@pytest.mark.trap
def test_more_partitions_have_a_result_each(broker: Any) -> None:
    """Trap 19: the CreatePartitions result is not empty."""
    result = CreatePartitionsResponse.TopicResult(name="a", error_code=0)
    broker.metadata.answers[CreatePartitionsRequest] = Promise.of(
        CreatePartitionsResponse(throttle_time_ms=0, results=[result])
    )
    broker.authorizer = Denying((Operation.ALTER, Resource.TOPIC, "no"))
    assert [
        (one.name, one.error_code, one.error_message) for one in grow(broker, "a", "dup", "dup", "no")
    ] == [
        ("a", 0, None),
        ("no", 29, None),
        ("dup", 42, "Duplicate topic name."),
    ]
    ((request, _, _),) = broker.metadata.asked
    assert ([one.name for one in request.topics], request.validate_only) == (["a"], True)
    assert [one.error_code for one in grow(broker, "dup", "dup")] == [42]


def delete(broker: Any, version: int, names: tuple[str, ...] = (), states: Any = ()) -> Any:
    request = DeleteTopicsRequest(
        topic_names=list(names),
        topics=[
            DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states
        ],
        timeout_ms=1,
    )
    answer = settled(delete_topics.handle(broker, request, call_of(20, version)))
    return {(one.name, one.topic_id): (one.error_code, one.error_message) for one in answer.responses}


def test_topics_are_deleted_by_name(broker: Any) -> None:
    known = topic(broker, "known")
    topic(broker, "dup")
    assert delete(broker, 5, ("known", "nope", "dup", "dup")) == {
        ("known", known): (0, None),
        ("nope", ZERO_UUID): (3, "This server does not host this topic-partition."),
        ("dup", ZERO_UUID): (42, "Duplicate topic name."),
    }
    ((request, version, _),) = broker.metadata.asked
    # By id, so that a topic recreated under the same name is kept.
    assert [(one.name, one.topic_id) for one in request.topics] == [(None, known)]
    assert version == 6


def test_topics_are_deleted_by_id(broker: Any) -> None:
    known, unknown, twice = topic(broker, "known"), Uuid(b"1" * 16), Uuid(b"2" * 16)
    states = [
        (None, known),
        (None, ZERO_UUID),
        ("x", unknown),
        (None, twice),
        (None, twice),
        (None, unknown),
    ]
    assert delete(broker, 6, states=states) == {
        ("known", known): (0, None),
        (None, ZERO_UUID): (42, "Neither topic name nor id were specified."),
        ("x", unknown): (42, "You may not specify both topic name and topic id."),
        (None, twice): (42, "Duplicate topic id."),
        (None, unknown): (100, "This server does not host this topic ID."),
    }


def test_a_topic_given_both_ways_is_left_alone(broker: Any) -> None:
    known = topic(broker, "known")
    assert delete(broker, 6, states=[(None, known), ("known", ZERO_UUID)]) == {
        ("known", known): (42, "The provided topic name maps to an ID that was already supplied.")
    }
    assert not broker.metadata.asked


def test_deletion_may_be_switched_off() -> None:
    broker: Any = FakeBroker(delete_topic_enable="false")
    for version, code in ((2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
        with pytest.raises(KafkaError) as refused:
            delete(broker, version, ("a",))
        assert refused.value.code is code
    request = DeleteTopicsRequest(topic_names=["a"], timeout_ms=1)
    answer = delete_topics.refuse(request, ErrorCode.TOPIC_DELETION_DISABLED, "off")
    assert [(one.name, one.error_code) for one in answer.responses] == [("a", 73)]


def test_a_denied_deletion_reveals_nothing(broker: Any) -> None:
    hidden, seen = topic(broker, "hidden"), topic(broker, "seen")
    broker.authorizer = Denying(
        (Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME),
        (Operation.DELETE, Resource.TOPIC, None),
        (Operation.DESCRIBE, Resource.TOPIC, "hidden"),
        (Operation.DESCRIBE, Resource.TOPIC, "nope"),
    )
    outcomes = delete(
        broker, 6, states=[(None, hidden), (None, seen), ("nope", ZERO_UUID), ("seen", ZERO_UUID)]
    )
    assert {key: code for key, (code, _) in outcomes.items()} == {
        (None, hidden): 29,
        ("seen", seen): 29,
        ("nope", ZERO_UUID): 29,
        ("seen", ZERO_UUID): 29,
    }


def test_a_node_that_is_not_active_forwards_a_deletion(broker: Any) -> None:
    """It decided from its own image: a topic that another broker had just created was unknown to it."""
    broker.metadata.is_active = False
    answer = DeleteTopicsResponse(throttle_time_ms=0, responses=[])
    broker.metadata.answers[DeleteTopicsRequest] = Promise.of(answer)
    assert delete(broker, 6, states=[("not-known-here", ZERO_UUID)]) == {}
    ((request, version, principal),) = broker.metadata.asked
    assert [one.name for one in request.topics] == ["not-known-here"]
    assert (version, principal, broker.metadata.forwarded) == (6, "User:ANONYMOUS", [True])


def test_a_deletion_by_name_that_another_has_overtaken(broker: Any) -> None:
    """The controller is asked by id, and knew that the topic was deleted: the client had named it."""
    known = topic(broker, "known")
    result = DeleteTopicsResponse.DeletableTopicResult(
        name=None, topic_id=known, error_code=ErrorCode.UNKNOWN_TOPIC_ID, error_message="gone"
    )
    answer = DeleteTopicsResponse(throttle_time_ms=0, responses=[result])
    broker.metadata.answers[DeleteTopicsRequest] = Promise.of(answer)
    assert delete(broker, 6, states=[("known", ZERO_UUID)]) == {
        ("known", ZERO_UUID): (3, "This server does not host this topic-partition.")
    }
