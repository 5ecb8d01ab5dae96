"""CreatePartitions (key 37, versions 0-3): adds partitions to topics (KIP-195).

* A topic that the request names more than once is refused here; the controller decides the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.controller_requests import check_count, send_in_chunks, until_shown
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, each
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.metadata.image import Image

KEY = 37
_Result = CreatePartitionsResponse.TopicResult


def handle(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> Steps[CreatePartitionsResponse]:
    counts = Counter((yield from each(request.topics, lambda topic: topic.name)))
    results, accepted = [], []
    for topic in request.topics:
        yield None
        if counts[topic.name] > 1:
            continue
        if broker.authorizer.allows(context, Operation.ALTER, Resource.TOPIC, topic.name):
            accepted.append(topic)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results.append(_refused(topic.name, code, None))
    results += [
        _refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    if not accepted:
        return CreatePartitionsResponse(throttle_time_ms=0, results=results)
    check_count(len(accepted))
    for topic in accepted:
        check_count(len(topic.assignments or ()))

    def request_for(topics: list[CreatePartitionsRequest.Topic]) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(
            topics=topics, timeout_ms=request.timeout_ms, validate_only=request.validate_only
        )

    response = yield from send_in_chunks(
        broker, context, accepted, request_for, CreatePartitionsResponse, "results"
    )
    added = {result.name for result in response.results if result.error_code == ErrorCode.NONE}
    wanted = {topic.name: topic.count for topic in accepted if topic.name in added}
    if not request.validate_only:
        yield from until_shown(broker, context, lambda image: _has_all(image, wanted))
    response.results.extend(results)
    return response


def refuse(request: CreatePartitionsRequest, code: ErrorCode, message: str) -> CreatePartitionsResponse:
    """Every topic gets the error."""
    return CreatePartitionsResponse(
        throttle_time_ms=0, results=[_refused(topic.name, code, message) for topic in request.topics]
    )


def _has_all(image: Image, counts: dict[str, int]) -> bool:
    """A topic that was deleted meanwhile gets no partitions any more."""
    topics = ((image.topic_named(name), count) for name, count in counts.items())
    return all(topic is None or len(topic.partitions) >= count for topic, count in topics)


def _refused(name: str, code: ErrorCode, message: str | None) -> _Result:
    return _Result(name=name, error_code=code, error_message=message)
