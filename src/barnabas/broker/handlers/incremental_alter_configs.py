"""IncrementalAlterConfigs (key 44, versions 0-1): sets, deletes or changes single options (KIP-339).

* Log levels are local to this broker and are changed here (KIP-412).
* Broker options are validated here and then by the controller (KIP-226); options of topics, groups and client
  metrics by the controller alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.admin import config_changes, loggers
from barnabas.broker.network.controller_requests import check_count, is_for_controller, send_in_chunks
from barnabas.broker.network.request_context import RequestContext, specific_message
from barnabas.broker.network.request_steps import Steps, each
from barnabas.config.layers import broker_option
from barnabas.config.option import Type
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 44
SET, DELETE, APPEND, SUBTRACT = range(4)
_OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

_Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
_Outcome = tuple[_Resource, KafkaError | None]
_Outcomes = list[_Outcome]


def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Steps[IncrementalAlterConfigsResponse]:
    validate = partial(_validate, broker, context, request.validate_only)
    remaining, decided = yield from config_changes.validate_all(request.resources, validate)
    if not remaining:
        return (yield from _outcomes(decided))
    check_count(len(remaining))

    def request_for(resources: list[_Resource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(resources=resources, validate_only=request.validate_only)

    response = yield from send_in_chunks(
        broker, context, remaining, request_for, IncrementalAlterConfigsResponse, "responses"
    )
    response.responses.extend((yield from _outcomes(decided)).responses)
    return response


def refuse(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str
) -> IncrementalAlterConfigsResponse:
    error = KafkaError(code, message)
    return _response([(resource, error) for resource in request.resources])


def _validate(broker: Broker, context: RequestContext, validate_only: bool, resource: _Resource) -> bool:
    """Raises if the resource is refused; returns whether it needs no request to the controller."""
    check_count(len(resource.configs))
    config_changes.check_names(
        [option.name for option in resource.configs],
        [
            option.name
            for option in resource.configs
            if option.value is None and option.config_operation != DELETE
        ],
    )
    resource_type = resource.resource_type
    if resource_type not in (
        ConfigResource.TOPIC,
        ConfigResource.BROKER,
        ConfigResource.BROKER_LOGGER,
        ConfigResource.CLIENT_METRICS,
        ConfigResource.GROUP,
    ):
        raise config_changes.unknown_type(resource_type)
    if resource_type == ConfigResource.BROKER and not is_for_controller(broker, context):
        # The broker has checked it before it forwarded the request.
        values = _changed_options(broker, resource)
        config_changes.check_broker_options(broker, resource.resource_name, values)
    config_changes.authorize_alter(broker, context, resource_type, resource.resource_name)
    if resource_type == ConfigResource.BROKER_LOGGER:
        _change_loggers(broker, resource, validate_only)
        return True
    return False


def _changed_options(broker: Broker, resource: _Resource) -> dict[str, str]:
    """Returns the options that the broker would have."""
    values = dict(broker.image.configs_of(ConfigResource.BROKER, resource.resource_name))
    for option in resource.configs:
        if option.config_operation not in _OPERATIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {option.config_operation}")
        if option.config_operation == DELETE:
            values.pop(option.name, None)
        elif option.config_operation == SET:
            values[option.name] = option.value or ""
        else:
            values[option.name] = _changed_list(broker, option, values.get(option.name))
    return values


def _changed_list(
    broker: Broker, option: IncrementalAlterConfigsRequest.AlterableConfig, current: str | None
) -> str:
    row = broker_option(option.name, broker.node.mode)
    if row is None or row.type is not Type.LIST:
        operation = _OPERATIONS[option.config_operation]
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {operation.lower()} is not allowed for config key: {option.name}",
        )
    parts = (current if current is not None else row.default or "").split(",")
    given = (option.value or "").split(",")
    if option.config_operation == APPEND:
        return ",".join([*filter(None, parts), *(part for part in given if part not in parts)])
    return ",".join(part for part in parts if part and part not in given)


def _change_loggers(broker: Broker, resource: _Resource, validate_only: bool) -> None:
    config_changes.check_node_id(broker, resource.resource_name, "Unexpected node id. Expected")
    for option in resource.configs:
        if option.config_operation not in (SET, DELETE):
            operation = _OPERATIONS.get(option.config_operation, str(option.config_operation))
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{operation} operation is not allowed for the BROKER_LOGGER resource",
            )
        loggers.check(option.name, option.value if option.config_operation == SET else None)
    for option in () if validate_only else resource.configs:
        loggers.set_level(option.name, option.value if option.config_operation == SET else None)


def _text(resource: _Resource, error: KafkaError) -> str | None:
    """For loggers, which are handled by this broker alone, the generic text of a code is left out."""
    if resource.resource_type == ConfigResource.BROKER_LOGGER:
        return specific_message(error.code, error.message)
    return error.message


def _response(decided: _Outcomes) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=0, responses=[_outcome(outcome) for outcome in decided]
    )


def _outcomes(decided: _Outcomes) -> Steps[IncrementalAlterConfigsResponse]:
    """Like `_response`, with a step for each outcome."""
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=(yield from each(decided, _outcome)))


def _outcome(decided: _Outcome) -> IncrementalAlterConfigsResponse.AlterConfigsResourceResponse:
    resource, error = decided
    return IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else _text(resource, error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
