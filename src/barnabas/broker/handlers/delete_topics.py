"""DeleteTopics (key 20, versions 1-6): deletes topics by name or, from version 6 on, by id (KIP-516).

* `delete.topic.enable=false` refuses all: INVALID_REQUEST before version 3, TOPIC_DELETION_DISABLED from 3
  on.
* A client without DESCRIBE cannot tell whether a topic of that name exists.
* Only the active controller knows which topics exist: other nodes forward the request.
* From version 5 on the request to the controller has ids, so that a topic recreated under the same name is
  not deleted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.broker.network.controller_requests import (
    check_controller,
    check_count,
    send_in_chunks,
    until_shown,
)
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.controller.topics.deletions import STRICT_QUOTA_VERSION
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.metadata.image import Image

KEY = 20
FIRST_WITH_DELETION_DISABLED = 3
_BY_ID_VERSION = 6
_Result = DeleteTopicsResponse.DeletableTopicResult


def handle(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> Steps[DeleteTopicsResponse]:
    check_controller(broker, context)
    if not broker.metadata.is_active:
        forwarded = broker.metadata.send_request(
            request,
            context.api_version,
            context.principal,
            host=context.peer.host,
            client_id=context.client_id,
            is_forwarded=True,
        )
        response = yield from awaited(forwarded)
        assert isinstance(response, DeleteTopicsResponse)
        deleted = [result for result in response.responses if result.error_code == ErrorCode.NONE]
        yield from until_shown(broker, context, lambda image: not any(_is_there(image, it) for it in deleted))
        return response
    if not broker.settings["delete.topic.enable"]:
        if context.api_version < FIRST_WITH_DELETION_DISABLED:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    results: list[_Result] = []
    names, ids = yield from _distinct(request, results)
    chosen = yield from _by_id(broker, context, ids, results)
    yield from _by_name(broker, context, names, chosen, results)
    if not chosen:
        return DeleteTopicsResponse(throttle_time_ms=0, responses=results)
    check_count(len(chosen))

    # A quota treats clients of early versions in another way; those have no ids.
    version = _BY_ID_VERSION if context.api_version >= STRICT_QUOTA_VERSION else context.api_version

    def request_for(ids: list[Uuid]) -> DeleteTopicsRequest:
        if version < _BY_ID_VERSION:
            return DeleteTopicsRequest(
                topic_names=[chosen[topic_id] for topic_id in ids], timeout_ms=request.timeout_ms
            )
        states = [DeleteTopicsRequest.DeleteTopicState(topic_id=topic_id) for topic_id in ids]
        return DeleteTopicsRequest(topics=states, timeout_ms=request.timeout_ms)

    response = yield from send_in_chunks(
        broker, context, list(chosen), request_for, DeleteTopicsResponse, "responses", version=version
    )
    for result in response.responses:
        # The client's version may identify topics by name only.
        result.name = chosen.get(result.topic_id, result.name)
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_ID and result.name in names:
            # An earlier request has deleted it meanwhile.
            result.topic_id, result.error_code = ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = ERRORS[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION].text
    response.responses.extend(results)
    return response


def refuse(request: DeleteTopicsRequest, code: ErrorCode, message: str) -> DeleteTopicsResponse:
    """Every topic gets the error."""
    return DeleteTopicsResponse(
        throttle_time_ms=0,
        responses=[
            *(_refused(name, ZERO_UUID, code, message) for name in request.topic_names),
            *(_refused(topic.name, topic.topic_id, code, message) for topic in request.topics),
        ],
    )


def _is_there(image: Image, result: _Result) -> bool:
    """Before version 6 a response has no ids."""
    return result.topic_id in image.topics if result.topic_id != ZERO_UUID else result.name in image.topic_ids


def _distinct(request: DeleteTopicsRequest, results: list[_Result]) -> Steps[tuple[list[str], list[Uuid]]]:
    """Returns the names and ids that occur once; refuses duplicates and invalid entries."""
    names: Counter[str] = Counter(request.topic_names)
    ids: Counter[Uuid] = Counter()
    for topic in request.topics:
        yield None
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            why = "You may not specify both topic name and topic id."
            results.append(_refused(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, why))
        elif topic.name is not None:
            names[topic.name] += 1
        elif topic.topic_id != ZERO_UUID:
            ids[topic.topic_id] += 1
        else:
            why = "Neither topic name nor id were specified."
            results.append(_refused(None, ZERO_UUID, ErrorCode.INVALID_REQUEST, why))
    for name, count in names.items():
        if count > 1:
            results.append(_refused(name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    for topic_id, count in ids.items():
        if count > 1:
            results.append(_refused(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id."))
    return [name for name in names if names[name] == 1], [topic_id for topic_id in ids if ids[topic_id] == 1]


def _is_allowed(broker: Broker, context: RequestContext, operation: Operation, name: str) -> bool:
    allows = broker.authorizer.allows
    return allows(context, Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME, quiet=True) or allows(
        context, operation, Resource.TOPIC, name
    )


def _by_id(
    broker: Broker, context: RequestContext, ids: list[Uuid], results: list[_Result]
) -> Steps[dict[Uuid, str]]:
    chosen: dict[Uuid, str] = {}
    for topic_id in ids:
        yield None
        topic = broker.image.topics.get(topic_id)
        if topic is None:
            results.append(_refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif _is_allowed(broker, context, Operation.DELETE, topic.name):
            chosen[topic_id] = topic.name
        else:
            shown = topic.name if _is_allowed(broker, context, Operation.DESCRIBE, topic.name) else None
            results.append(_refused(shown, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return chosen


def _by_name(
    broker: Broker, context: RequestContext, names: list[str], chosen: dict[Uuid, str], results: list[_Result]
) -> Steps[None]:
    given_as_id = set(chosen)
    for name in names:
        yield None
        topic_id = broker.image.topic_ids.get(name)
        if not _is_allowed(broker, context, Operation.DESCRIBE, name):
            results.append(_refused(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic_id is None:
            results.append(_refused(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif not _is_allowed(broker, context, Operation.DELETE, name):
            results.append(_refused(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic_id in given_as_id:
            why = "The provided topic name maps to an ID that was already supplied."
            chosen.pop(topic_id, None)
            results.append(_refused(name, topic_id, ErrorCode.INVALID_REQUEST, why))
        else:
            chosen[topic_id] = name


def _refused(name: str | None, topic_id: Uuid, code: ErrorCode, message: str | None = None) -> _Result:
    text = ERRORS[code].text if message is None else message
    return _Result(name=name, topic_id=topic_id, error_code=code, error_message=text)
