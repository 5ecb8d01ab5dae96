"""CreatePartitions (key 37, versions 0-3): more partitions for topics (KIP-195).

* A topic that stands twice in the request is refused here; the controller decides the others.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 37
_Result = CreatePartitionsResponse.TopicResult


def handle(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> Answer[CreatePartitionsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    results, wanted = [], []
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        if broker.authorizer.allows(context, Operation.ALTER, Resource.TOPIC, topic.name):
            wanted.append(topic)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results.append(_refused(topic.name, code, None))
    results += [
        _refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    if not wanted:
        return CreatePartitionsResponse(throttle_time_ms=0, results=results)
    answer: Promise[CreatePartitionsResponse] = Promise()
    asked = CreatePartitionsRequest(
        topics=wanted, timeout_ms=request.timeout_ms, validate_only=request.validate_only
    )
    broker.metadata.ask(asked, context.api_version, context.principal).then(
        partial(_joined, answer, results), answer.fail
    )
    return answer


def refuse(request: CreatePartitionsRequest, code: ErrorCode, message: str) -> CreatePartitionsResponse:
    """Every topic gets the error."""
    return CreatePartitionsResponse(
        throttle_time_ms=0, results=[_refused(topic.name, code, message) for topic in request.topics]
    )


def _refused(name: str, code: ErrorCode, message: str | None) -> _Result:
    return _Result(name=name, error_code=code, error_message=message)


def _joined(answer: Promise[CreatePartitionsResponse], results: list[_Result], response: Message) -> None:
    assert isinstance(response, CreatePartitionsResponse)
    response.results.extend(results)
    answer.set(response)
