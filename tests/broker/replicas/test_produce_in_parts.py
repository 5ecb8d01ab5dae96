"""Produce requests that name very many partitions are split, and their responses merged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from barnabas.base.ids import ZERO_UUID
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS
from barnabas.broker.replicas.produce_many import produce_in_parts
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.runtime.loop.promise import Promise

Topic = ProduceRequest.TopicProduceData


def request(topics: dict[str, list[int]], acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        transactional_id="txn",
        acks=acks,
        timeout_ms=77,
        topic_data=[
            Topic(
                name=name,
                topic_id=ZERO_UUID,
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=index, records=b"%d" % number)
                    for number, index in enumerate(indexes)
                ],
            )
            for name, indexes in topics.items()
        ],
    )


class Validated:
    """A part that may be written."""

    def __init__(self, produce: Callable[[ProduceRequest], Any], part: ProduceRequest) -> None:
        self._produce = produce
        self._part = part

    def transactional_producers(self) -> set[tuple[int, int]]:
        return set()

    def start(self) -> Any:
        return self._produce(self._part)


def _not_refused(request: ProduceRequest, code: object, message: object) -> None:
    raise AssertionError("no part is refused here")


class Broker:
    """Returns the records of each partition as its base offset."""

    def __init__(self) -> None:
        self.parts: list[ProduceRequest] = []

    def produce(self, part: ProduceRequest) -> ProduceResponse | None:
        self.parts.append(part)
        if part.acks == 0:
            return None
        return ProduceResponse(
            throttle_time_ms=0,
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        ProduceResponse.PartitionProduceResponse(
                            index=each.index,
                            error_code=0,
                            base_offset=int(each.records or b"-1"),  # type: ignore[arg-type]  # bytes here
                        )
                        for each in topic.partition_data
                    ],
                )
                for topic in part.topic_data
            ],
        )

    def validate(self, part: ProduceRequest) -> Validated:
        return Validated(self.produce, part)

    def handle(self, whole: ProduceRequest) -> dict[str, dict[int, int]] | None:
        """The offsets by topic and partition; None without a response."""
        steps = produce_in_parts(whole, cast("Any", self.validate), _not_refused)
        try:
            while True:
                assert next(steps) is None
        except StopIteration as ended:
            response = ended.value
        if response is None:
            return None
        assert len({topic.name for topic in response.responses}) == len(response.responses)
        return {
            topic.name: {each.index: each.base_offset for each in topic.partition_responses}
            for topic in response.responses
        }

    @property
    def sizes(self) -> list[int]:
        return [sum(len(topic.partition_data) for topic in part.topic_data) for part in self.parts]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (1, [1]),
        (CHUNK_ELEMENTS, [CHUNK_ELEMENTS]),
        (CHUNK_ELEMENTS + 1, [CHUNK_ELEMENTS, 1]),
        (2 * CHUNK_ELEMENTS, [CHUNK_ELEMENTS, CHUNK_ELEMENTS]),
    ],
)
def test_a_topic_is_split_and_its_response_is_whole(count: int, sizes: list[int]) -> None:
    broker = Broker()
    assert broker.handle(request({"t": list(range(count))})) == {
        "t": {number: number for number in range(count)}
    }
    assert broker.sizes == sizes
    assert {(part.transactional_id, part.acks, part.timeout_ms) for part in broker.parts} == {("txn", -1, 77)}


def test_many_topics_share_a_part() -> None:
    broker = Broker()
    topics = {f"t{number}": [0, 1] for number in range(CHUNK_ELEMENTS)}
    assert broker.handle(request(topics)) == {name: {0: 0, 1: 1} for name in topics}
    assert broker.sizes == [CHUNK_ELEMENTS, CHUNK_ELEMENTS]


def test_of_a_partition_named_twice_the_last_records_count() -> None:
    assert Broker().handle(request({"t": [5, 6, 5]})) == {"t": {5: 2, 6: 1}}


@pytest.mark.parametrize("topics", [{}, {f"t{number}": [] for number in range(1000)}])
def test_a_request_without_partitions_has_a_response(topics: dict[str, list[int]]) -> None:
    """A request of very many topics without partitions had none, and its client waited for the time-out."""
    broker = Broker()
    assert broker.handle(request(topics)) == {}
    assert broker.sizes == [0]


def test_without_acks_there_is_no_response() -> None:
    broker = Broker()
    assert broker.handle(request({"t": list(range(CHUNK_ELEMENTS + 1))}, acks=0)) is None
    assert broker.sizes == [CHUNK_ELEMENTS, 1]


def test_a_part_that_waits_is_waited_for() -> None:
    broker = Broker()
    promise: Promise[ProduceResponse] = Promise()
    whole = request({"t": [3]})
    validate: Any = partial(Validated, lambda _: promise)
    steps = produce_in_parts(whole, validate, _not_refused)
    while (waited := next(steps)) is None:
        pass
    assert waited is promise
    assert steps.send(broker.produce(whole)) is None
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value.responses[0].partition_responses[0].index == 3
