"""AlterConfigs (key 33, versions 0-2): the whole configuration of resources, replacing what was there.

* Superseded by IncrementalAlterConfigs (KIP-339), which cannot undo what somebody else has set meanwhile.
* Resources that contradict themselves are refused here; the controller decides the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.admin import config_changes
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 33
_Outcomes = list[tuple[AlterConfigsRequest.Resource, KafkaError | None]]


def handle(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> Answer[AlterConfigsResponse]:
    left, decided = config_changes.sort_out(request.resources, partial(_look_at, broker, context))
    if not left:
        return _response(decided)
    answer: Promise[AlterConfigsResponse] = Promise()
    asked = AlterConfigsRequest(resources=left, validate_only=request.validate_only)
    broker.metadata.ask(asked, context.api_version, context.principal).then(
        partial(_joined, answer, decided), answer.fail
    )
    return answer


def refuse(request: AlterConfigsRequest, code: ErrorCode, message: str) -> AlterConfigsResponse:
    error = KafkaError(code, message)
    return _response([(one, error) for one in request.resources])


def _look_at(broker: Broker, context: RequestContext, one: AlterConfigsRequest.Resource) -> bool:
    config_changes.check_names(
        [option.name for option in one.configs],
        [option.name for option in one.configs if option.value is None],
    )
    if one.resource_type not in (
        ConfigResource.TOPIC,
        ConfigResource.BROKER,
        ConfigResource.CLIENT_METRICS,
        ConfigResource.GROUP,
    ):
        raise config_changes.unknown_type(one.resource_type)
    if one.resource_type == ConfigResource.BROKER:
        values = {option.name: option.value or "" for option in one.configs}
        config_changes.check_broker_options(broker, one.resource_name, values)
    config_changes.authorize_alter(broker, context, one.resource_type, one.resource_name)
    return False


def _joined(answer: Promise[AlterConfigsResponse], decided: _Outcomes, response: Message) -> None:
    assert isinstance(response, AlterConfigsResponse)
    response.responses.extend(_response(decided).responses)
    answer.set(response)


def _response(decided: _Outcomes) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        throttle_time_ms=0,
        responses=[
            AlterConfigsResponse.ResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one, error in decided
        ],
    )
