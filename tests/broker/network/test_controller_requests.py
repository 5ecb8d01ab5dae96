"""Requests that are cut into parts, and their answers joined again."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.controller_requests import (
    check_controller,
    check_count,
    send_in_chunks,
    send_to_controller,
    split_topics,
)
from barnabas.broker.network.forwarding import forward
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS
from barnabas.broker.security.authorizer import Operation
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.front_world import FakeBroker, call_of, node_of, settled
from tests.broker.worlds.steps import begun

Topic = ElectLeadersRequest.TopicPartitions


def split(*topics: tuple[str, int], size: int) -> list[tuple[list[tuple[str, list[int]]], bool]]:
    made = [Topic(topic=name, partitions=list(range(count))) for name, count in topics]
    return [
        ([(one.topic, one.partitions) for one in part], continues)
        for part, continues in split_topics(made, "partitions", size)
    ]


def test_a_topic_with_many_partitions_is_cut() -> None:
    assert split(("a", 5), ("b", 1), size=2) == [
        ([("a", [0, 1])], False),
        ([("a", [2, 3])], True),
        ([("a", [4]), ("b", [0])], True),
    ]


def test_topics_with_few_or_no_partitions_stay_together() -> None:
    assert split(("a", 1), ("b", 0), ("c", 1), size=10) == [
        ([("a", [0]), ("b", []), ("c", [0])], False),
    ]
    assert split(size=10) == [([], False)]


@pytest.mark.parametrize("count", [0, 1, CHUNK_ELEMENTS, 3 * CHUNK_ELEMENTS + 1])
def test_the_controller_is_asked_a_few_at_a_time(count: int) -> None:
    asked: list[list[int]] = []

    class Metadata:
        def send_for_client(
            self, request: Any, version: int, principal: str, host: str, client_id: str
        ) -> Promise[Any]:
            asked.append(request)
            return Promise.of(Answer(request))

    class Answer:
        def __init__(self, results: list[int]) -> None:
            self.results = list(results)
            self.throttle_time_ms = len(results)

    class Controlled:
        metadata = Metadata()
        node = node_of()

    broker: Any = Controlled()
    numbers = list(range(count))
    make: Any = list
    response_type: Any = Answer
    answer = begun(send_in_chunks(broker, call_of(19, 7), numbers, make, response_type, "results"))
    assert answer.results == numbers
    assert all(len(part) <= CHUNK_ELEMENTS for part in asked)
    assert answer.throttle_time_ms == min(count, CHUNK_ELEMENTS), "the longest of all"


def test_what_no_batch_could_hold_is_refused_before_it_is_looked_at() -> None:
    check_count(10_000)
    check_count(5_000, 2)
    with pytest.raises(KafkaError) as refused:
        check_count(5_001, 2)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("leader_id", "text"),
    [(2, "The active controller appears to be node 2."), (-1, "No controller appears to be active.")],
)
def test_a_standby_refuses_on_its_controller_listener(leader_id: int, text: str) -> None:
    """It forwarded such requests, and a broker that knew the wrong controller waited for its timeout."""
    broker: Any = FakeBroker()
    broker.metadata.is_active = False
    broker.controller_id = leader_id
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )
    with pytest.raises(KafkaError) as refused:
        forward(Operation.CLUSTER_ACTION, broker, heartbeat, call_of(63, 1, listener="CONTROLLER"))
    assert (refused.value.code, refused.value.message) == (ErrorCode.NOT_CONTROLLER, text)
    assert broker.metadata.asked == []
    # Requests of clients are forwarded, and an active controller decides.
    check_controller(broker, call_of(19, 7))
    broker.metadata.is_active = True
    broker.metadata.answers[BrokerHeartbeatRequest] = Promise.of(None)
    settled(forward(Operation.CLUSTER_ACTION, broker, heartbeat, call_of(63, 1, listener="CONTROLLER")))
    assert len(broker.metadata.asked) == 1


@pytest.mark.parametrize(("listener", "is_noticed"), [("PLAINTEXT", False), ("CONTROLLER", True)])
def test_only_nodes_notice_that_a_controller_was_deposed(listener: str, is_noticed: bool) -> None:
    """KIP-590: a client's request goes to the next controller; a node that forwards it looks for that one."""
    asked: list[Promise[Any]] = []

    class Metadata:
        is_active = True

        def send_for_client(
            self, request: Any, version: int, principal: str, host: str, client_id: str
        ) -> Promise[Any]:
            asked.append(Promise())
            return asked[-1]

    class Controlled:
        metadata = Metadata()
        node = node_of()

    broker: Any = Controlled()
    request: Any = object()
    response = send_to_controller(broker, call_of(19, 7, listener=listener), request)
    broker.metadata.is_active = False
    asked[0].fail(KafkaError(ErrorCode.NOT_CONTROLLER, "it is no longer active"))
    if is_noticed:
        assert len(asked) == 1
        with pytest.raises(KafkaError, match="no longer active"):
            settled(response)
    else:
        asked[1].set("created")
        assert settled(response) == "created"


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.POLICY_VIOLATION])
def test_a_refusal_is_not_retried_for_ever(code: ErrorCode) -> None:
    count = 0

    class Metadata:
        is_active = False

        def send_for_client(
            self, request: Any, version: int, principal: str, host: str, client_id: str
        ) -> Promise[Any]:
            nonlocal count
            count += 1
            refused: Promise[Any] = Promise()
            refused.fail(KafkaError(code, "this node is stopping"))
            return refused

    class Controlled:
        metadata = Metadata()
        node = node_of()

    broker: Any = Controlled()
    request: Any = object()
    with pytest.raises(KafkaError) as refused:
        settled(send_to_controller(broker, call_of(19, 7), request))
    assert refused.value.code is code
    assert count <= 2
