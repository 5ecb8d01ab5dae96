"""CreateTopics (key 19, versions 2-7): creates topics, by partition count or by replica assignment.

* Duplicate names and the name of the metadata log are refused here; the controller decides the others.  The
  response is sent when the topics are committed, and this broker's metadata shows them.
* From version 5 on the response has the topic's configs (KIP-525), from version 7 on its id (KIP-516).  A
  client that may not describe configs gets TOPIC_AUTHORIZATION_FAILED instead of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.base.topic_names import CLUSTER_METADATA
from barnabas.broker.network.controller_requests import check_count, send_in_chunks, until_shown
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, each
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.metadata.image import Image

KEY = 19
# At least: one for the topic and one for its partition.
RECORDS_OF_A_TOPIC = 2
_Result = CreateTopicsResponse.CreatableTopicResult


def handle(
    broker: Broker, request: CreateTopicsRequest, context: RequestContext
) -> Steps[CreateTopicsResponse]:
    counts = Counter((yield from each(request.topics, lambda topic: topic.name)))
    refused: dict[str, tuple[ErrorCode, str]] = {}
    hidden: set[str] = set()
    allows = broker.authorizer.allows
    for name, count in counts.items():
        why = _error_of(broker, context, name, count)
        if why is not None:
            refused[name] = why
        elif not allows(context, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, name, quiet=True):
            hidden.add(name)
        yield None
    accepted = [topic for topic in request.topics if topic.name not in refused]
    results = [_refused(name, *why) for name, why in refused.items()]
    if not accepted:
        return CreateTopicsResponse(throttle_time_ms=0, topics=results)
    check_count(len(accepted), RECORDS_OF_A_TOPIC)
    for topic in accepted:
        check_count(len(topic.assignments) + len(topic.configs))

    def request_for(topics: list[CreateTopicsRequest.CreatableTopic]) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            topics=topics, timeout_ms=request.timeout_ms, validate_only=request.validate_only
        )

    response = yield from send_in_chunks(
        broker, context, accepted, request_for, CreateTopicsResponse, "topics"
    )
    created = [result.name for result in response.topics if result.error_code == ErrorCode.NONE]
    if not request.validate_only:
        yield from until_shown(broker, context, lambda image: _has_all(image, created))
    _hide_configs(response, hidden)
    response.topics.extend(results)
    return response


def refuse(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    """Every topic gets the error."""
    return CreateTopicsResponse(
        throttle_time_ms=0, topics=[_refused(topic.name, code, message) for topic in request.topics]
    )


def _has_all(image: Image, names: list[str]) -> bool:
    return all(image.topic_named(name) is not None for name in names)


def _error_of(broker: Broker, context: RequestContext, name: str, count: int) -> tuple[ErrorCode, str] | None:
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


def _hide_configs(response: CreateTopicsResponse, hidden: set[str]) -> None:
    """Removes the configs of topics that the client may create but not describe."""
    for result in response.topics:
        if result.name in hidden and result.error_code == ErrorCode.NONE:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions = result.replication_factor = -1
            result.configs = []
