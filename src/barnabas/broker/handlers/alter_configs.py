"""AlterConfigs (key 33, versions 0-2): replaces the whole configuration of resources.

* Superseded by IncrementalAlterConfigs (KIP-339), which cannot undo concurrent changes of other clients.
* Resources with contradictory entries are refused here; the controller decides the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.admin import config_changes
from barnabas.broker.network.controller_requests import check_count, is_for_controller, send_in_chunks
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
    remaining, decided = yield from config_changes.validate_all(
        request.resources, partial(_validate, broker, context)
    )
    if not remaining:
        return (yield from _outcomes(decided))
    check_count(len(remaining))

    def request_for(resources: list[AlterConfigsRequest.Resource]) -> AlterConfigsRequest:
        return AlterConfigsRequest(resources=resources, validate_only=request.validate_only)

    response = yield from send_in_chunks(
        broker, context, remaining, request_for, AlterConfigsResponse, "responses"
    )
    response.responses.extend((yield from _outcomes(decided)).responses)
    return response


def refuse(request: AlterConfigsRequest, code: ErrorCode, message: str) -> AlterConfigsResponse:
    error = KafkaError(code, message)
    return _response([(resource, error) for resource in request.resources])


def _validate(broker: Broker, context: RequestContext, resource: AlterConfigsRequest.Resource) -> bool:
    check_count(len(resource.configs))
    config_changes.check_names(
        [option.name for option in resource.configs],
        [option.name for option in resource.configs if option.value is None],
    )
    if resource.resource_type not in (
        ConfigResource.TOPIC,
        ConfigResource.BROKER,
        ConfigResource.CLIENT_METRICS,
        ConfigResource.GROUP,
    ):
        raise config_changes.unknown_type(resource.resource_type)
    if resource.resource_type == ConfigResource.BROKER and not is_for_controller(broker, context):
        # The broker has checked it before it forwarded the request.
        values = {option.name: option.value or "" for option in resource.configs}
        config_changes.check_broker_options(broker, resource.resource_name, values)
    config_changes.authorize_alter(broker, context, resource.resource_type, resource.resource_name)
    return False


def _response(decided: _Outcomes) -> AlterConfigsResponse:
    return AlterConfigsResponse(throttle_time_ms=0, responses=[_outcome(outcome) for outcome in decided])


def _outcomes(decided: _Outcomes) -> Steps[AlterConfigsResponse]:
    """Like `_response`, with a step for each outcome."""
    return AlterConfigsResponse(throttle_time_ms=0, responses=(yield from each(decided, _outcome)))


def _outcome(decided: _Outcome) -> AlterConfigsResponse.ResourceResponse:
    resource, error = decided
    return AlterConfigsResponse.ResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
