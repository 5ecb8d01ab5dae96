"""CreateTopics (key 19, versions 2-7): make topics, by count or by hand-made assignment.

* A name that stands twice in the request, and the metadata log's own, are refused here; the controller
  decides the others.  Answered when the topics are committed.
* From version 5 on the answer has the topic's options (KIP-525), from version 7 on its id (KIP-516); who may
  not see options gets TOPIC_AUTHORIZATION_FAILED in their place.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.base.topic_names import CLUSTER_METADATA
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 19
_Result = CreateTopicsResponse.CreatableTopicResult


def handle(
    broker: Broker, request: CreateTopicsRequest, context: RequestContext
) -> Answer[CreateTopicsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    refused = {
        name: why for name in counts if (why := _why_not(broker, context, name, counts[name])) is not None
    }
    wanted = [topic for topic in request.topics if topic.name not in refused]
    results = [_refused(name, *why) for name, why in refused.items()]
    if not wanted:
        return CreateTopicsResponse(throttle_time_ms=0, topics=results)
    answer: Promise[CreateTopicsResponse] = Promise()
    asked = CreateTopicsRequest(
        topics=wanted, timeout_ms=request.timeout_ms, validate_only=request.validate_only
    )
    hidden = {
        topic.name
        for topic in wanted
        if not broker.authorizer.allows(
            context, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name, quiet=True
        )
    }
    broker.metadata.ask(asked, context.api_version, context.principal).then(
        partial(_joined, answer, results, hidden), answer.fail
    )
    return answer


def refuse(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    """Every topic gets the error."""
    return CreateTopicsResponse(
        throttle_time_ms=0, topics=[_refused(topic.name, code, message) for topic in request.topics]
    )


def _why_not(broker: Broker, context: RequestContext, name: str, count: int) -> tuple[ErrorCode, str] | None:
    if count > 1:
        return ErrorCode.INVALID_REQUEST, "Duplicate topic name."
    if name == CLUSTER_METADATA:
        return ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
    allows = broker.authorizer.allows
    if not (
        allows(context, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, quiet=True)
        or allows(context, Operation.CREATE, Resource.TOPIC, name)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    return None


def _refused(name: str, code: ErrorCode, message: str) -> _Result:
    return _Result(name=name, error_code=code, error_message=message)


def _joined(
    answer: Promise[CreateTopicsResponse], results: list[_Result], hidden: set[str], response: Message
) -> None:
    assert isinstance(response, CreateTopicsResponse)
    for result in response.topics:
        if result.name in hidden and result.error_code == ErrorCode.NONE:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions = result.replication_factor = -1
            result.configs = []
    response.topics.extend(results)
    answer.set(response)
