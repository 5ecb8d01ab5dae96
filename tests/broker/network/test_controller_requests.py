"""Requests that are cut into parts, and their answers joined again."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.network.controller_requests import ask_in_chunks, check_count, split_topics
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS
from barnabas.broker.replicas.produce_many import produce_in_parts
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.front_world import call_of
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
        def ask(self, request: Any, version: int, principal: str) -> Promise[Any]:
            asked.append(request)
            return Promise.of(Answer(request))

    class Answer:
        def __init__(self, results: list[int]) -> None:
            self.results = list(results)

    class Controlled:
        metadata = Metadata()

    broker: Any = Controlled()
    numbers = list(range(count))
    make: Any = list
    answer = begun(ask_in_chunks(broker, call_of(19, 7), numbers, make, "results"))
    assert answer.results == numbers
    assert all(len(part) <= CHUNK_ELEMENTS for part in asked)


def test_what_no_batch_could_hold_is_refused_before_it_is_looked_at() -> None:
    check_count(10_000)
    check_count(5_000, 2)
    with pytest.raises(KafkaError) as refused:
        check_count(5_001, 2)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_produce_in_parts_writes_the_last_records_of_each_partition_once() -> None:
    """F2: a Produce request of a megabyte of partitions held the loop for seconds."""
    indexes = list(range(2 * CHUNK_ELEMENTS + 5))
    partitions = [
        ProduceRequest.PartitionProduceData(index=index, records=b"%d" % turn)
        for turn in (1, 2)
        for index in indexes
    ]
    topic = ProduceRequest.TopicProduceData(name="t", topic_id=ZERO_UUID, partition_data=partitions)
    request = ProduceRequest(acks=1, timeout_ms=5, topic_data=[topic])
    written: list[tuple[int, object]] = []

    def produce(part: ProduceRequest) -> ProduceResponse:
        (only,) = part.topic_data
        assert len(only.partition_data) <= CHUNK_ELEMENTS
        written.extend((one.index, one.records) for one in only.partition_data)
        told = [
            ProduceResponse.PartitionProduceResponse(index=one.index, error_code=0, base_offset=one.index)
            for one in only.partition_data
        ]
        return ProduceResponse(
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=only.name, topic_id=only.topic_id, partition_responses=told
                )
            ]
        )

    answer = begun(produce_in_parts(request, produce))
    assert written == [(index, b"2") for index in indexes]
    (topic_answer,) = answer.responses
    assert [one.base_offset for one in topic_answer.partition_responses] == indexes


def test_produce_in_parts_without_acks_has_no_answer() -> None:
    partition = ProduceRequest.PartitionProduceData(index=0, records=None)
    topic = ProduceRequest.TopicProduceData(name="t", topic_id=ZERO_UUID, partition_data=[partition])
    request = ProduceRequest(acks=0, timeout_ms=5, topic_data=[topic])
    assert begun(produce_in_parts(request, lambda part: None)) is None
