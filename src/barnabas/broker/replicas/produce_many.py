"""Splits produce requests that name very many partitions, so that other requests are served in between.

Such a request names partitions more than once, or ones that do not exist.  If a partition is named more than
once, only the last records count, as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.base.ids import Uuid
from barnabas.broker.network.request_context import Answer
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS, Steps, awaited
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.runtime.loop.promise import Promise

_Topic = tuple[str, Uuid]
_Partitions = dict[int, ProduceRequest.PartitionProduceData]


def produce_in_parts(
    request: ProduceRequest, produce: Callable[[ProduceRequest], Answer[ProduceResponse]]
) -> Steps[ProduceResponse | None]:
    """Returns the merged responses of `produce` to the parts of the request."""
    topics: dict[_Topic, _Partitions] = {}
    for topic in request.topic_data:
        partitions = topics.setdefault((topic.name, topic.topic_id), {})
        for one in topic.partition_data:
            # The request's bytes are valid during the first slice only.
            one.records = None if one.records is None else bytes(one.records)  # type: ignore[arg-type]  # from the wire
            partitions[one.index] = one
    yield None
    answers: dict[_Topic, ProduceResponse.TopicProduceResponse] = {}
    whole: ProduceResponse | None = None
    for part in _parts(request, topics):
        answer: Any = produce(part)
        if isinstance(answer, Promise):
            answer = yield from awaited(answer)
        yield None
        if answer is None:
            continue
        whole = whole or answer
        for told in answer.responses:
            known = answers.setdefault((told.name, told.topic_id), told)
            if known is not told:
                known.partition_responses += told.partition_responses
    if whole is not None:
        whole.responses = list(answers.values())
    return whole


def _parts(request: ProduceRequest, topics: dict[_Topic, _Partitions]) -> Iterator[ProduceRequest]:
    part: list[ProduceRequest.TopicProduceData] = []
    count = 0
    for (name, topic_id), partitions in topics.items():
        left = list(partitions.values())
        for start in range(0, len(left), CHUNK_ELEMENTS):
            some = left[start : start + CHUNK_ELEMENTS]
            part.append(ProduceRequest.TopicProduceData(name=name, topic_id=topic_id, partition_data=some))
            count += len(some)
            if count >= CHUNK_ELEMENTS:
                yield _with(request, part)
                part, count = [], 0
    if part or not topics:
        yield _with(request, part)


def _with(request: ProduceRequest, topics: list[ProduceRequest.TopicProduceData]) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=topics,
    )
