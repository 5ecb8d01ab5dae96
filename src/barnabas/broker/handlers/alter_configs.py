"""AlterConfigs (key 33, versions 0-2): the whole configuration of resources, replacing what was there.

* Superseded by IncrementalAlterConfigs (KIP-339), which cannot undo what somebody else has set meanwhile.
* Resources that contradict themselves are refused here; the controller decides the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.admin import config_changes
from barnabas.broker.network.controller_requests import ask_in_chunks, check_count
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, each
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 33
_Outcome = tuple[AlterConfigsRequest.Resource, KafkaError | None]
_Outcomes = list[_Outcome]


def handle(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> Steps[AlterConfigsResponse]:
    left, decided = yield from config_changes.sort_out(request.resources, partial(_look_at, broker, context))
    if not left:
        return (yield from _outcomes(decided))
    check_count(len(left))

    def ask_for(some: list[AlterConfigsRequest.Resource]) -> AlterConfigsRequest:
        return AlterConfigsRequest(resources=some, validate_only=request.validate_only)

    response: AlterConfigsResponse = yield from ask_in_chunks(broker, context, left, ask_for, "responses")
    response.responses.extend((yield from _outcomes(decided)).responses)
    return response


def refuse(request: AlterConfigsRequest, code: ErrorCode, message: str) -> AlterConfigsResponse:
    error = KafkaError(code, message)
    return _response([(one, error) for one in request.resources])


def _look_at(broker: Broker, context: RequestContext, one: AlterConfigsRequest.Resource) -> bool:
    check_count(len(one.configs))
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


def _response(decided: _Outcomes) -> AlterConfigsResponse:
    return AlterConfigsResponse(throttle_time_ms=0, responses=[_outcome(one) for one in decided])


def _outcomes(decided: _Outcomes) -> Steps[AlterConfigsResponse]:
    """The same, a step for each."""
    return AlterConfigsResponse(throttle_time_ms=0, responses=(yield from each(decided, _outcome)))


def _outcome(decided: _Outcome) -> AlterConfigsResponse.ResourceResponse:
    one, error = decided
    return AlterConfigsResponse.ResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=one.resource_type,
        resource_name=one.resource_name,
    )
