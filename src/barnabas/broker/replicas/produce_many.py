"""Splits produce requests that name very many partitions, so that other requests are served in between.

Such a request names partitions more than once, or ones that do not exist.  If a partition is named more than
once, only the last records count, as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.broker.network.request_context import CloseConnectionError
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS, Steps, awaited, chunks
from barnabas.broker.replicas.produce import Produce, check_one_producer
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.primitives import record_view
from barnabas.runtime.loop.promise import Promise

_Topic = tuple[str, Uuid]
_Partitions = dict[int, ProduceRequest.PartitionProduceData]
_Validate = Callable[[ProduceRequest], Produce]
_Refuse = Callable[[ProduceRequest, ErrorCode, str], ProduceResponse | None]


def produce_in_parts(
    request: ProduceRequest, validate: _Validate, refuse: _Refuse
) -> Steps[ProduceResponse | None]:
    """Writes the parts of the request and merges their responses.

    Errors of the request as a whole are raised before any part is written, as Apache Kafka does.
    """
    topics: dict[_Topic, _Partitions] = {}
    for topic in request.topic_data:
        partitions = topics.setdefault((topic.name, topic.topic_id), {})
        for partition in topic.partition_data:
            # The request's bytes are valid during the first slice only.
            if partition.records is not None:
                partition.records = bytearray(record_view(partition.records))
            partitions[partition.index] = partition
    yield None
    producers: set[tuple[int, int]] = set()
    for part in _parts(request, topics):
        producers |= validate(part).transactional_producers()
        yield None
    check_one_producer(producers)
    merged = _MergedResponse()
    failure: CloseConnectionError | None = None
    for part in _parts(request, topics):
        try:
            response = yield from _write(part, validate, refuse)
        except CloseConnectionError as error:
            failure = failure or error
        else:
            merged.add(response)
        yield None
    if failure is not None:
        raise failure
    return merged.response


def _write(part: ProduceRequest, validate: _Validate, refuse: _Refuse) -> Steps[ProduceResponse | None]:
    """Returns the response to one part.  Others may be written already: an error concerns this part alone."""
    try:
        answer = validate(part).start()
        if isinstance(answer, Promise):
            answer = yield from awaited(answer)
        return answer
    except KafkaError as error:
        refused = refuse(part, error.code, error.message)
        if refused is None:
            raise CloseConnectionError(f"a produce with acks=0 failed ({error.code.name})") from error
        return refused


class _MergedResponse:
    """The response to the request, from those to its parts."""

    def __init__(self) -> None:
        # None: there is no response with acks=0.
        self.response: ProduceResponse | None = None
        self._topics: dict[_Topic, ProduceResponse.TopicProduceResponse] = {}
        self._nodes: set[int] = set()

    def add(self, part: ProduceResponse | None) -> None:
        if part is None:
            return
        if self.response is None:
            self.response = ProduceResponse(responses=[])
        for topic in part.responses:
            merged = self._topics.setdefault((topic.name, topic.topic_id), topic)
            if merged is topic:
                self.response.responses.append(topic)
            else:
                merged.partition_responses += topic.partition_responses
        for node in part.node_endpoints:
            if node.node_id not in self._nodes:
                self._nodes.add(node.node_id)
                self.response.node_endpoints.append(node)


def _parts(request: ProduceRequest, topics: dict[_Topic, _Partitions]) -> Iterator[ProduceRequest]:
    """At least one part: a request without any partition has a response, too."""
    part: list[ProduceRequest.TopicProduceData] = []
    count = 0
    is_begun = False
    for (name, topic_id), partitions in topics.items():
        for chunk in chunks(list(partitions.values())):
            part.append(
                ProduceRequest.TopicProduceData(name=name, topic_id=topic_id, partition_data=list(chunk))
            )
            count += len(chunk)
            if count >= CHUNK_ELEMENTS:
                yield _with(request, part)
                is_begun = True
                part, count = [], 0
    if part or not is_begun:
        yield _with(request, part)


def _with(request: ProduceRequest, topics: list[ProduceRequest.TopicProduceData]) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=topics,
    )
