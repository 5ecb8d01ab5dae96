"""IncrementalAlterConfigs (key 44, versions 0-1): set, delete, append to, subtract from options (KIP-339).

* Levels of loggers are this broker's own business and are changed here (KIP-412).
* Options of brokers are checked here, then by the controller (KIP-226); those of topics, groups and client
  metrics by the controller alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.admin import config_changes, loggers
from barnabas.broker.network.controller_requests import ask_in_chunks, check_count
from barnabas.broker.network.request_context import RequestContext, own_words
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
    look_at = partial(_look_at, broker, context, request.validate_only)
    left, decided = yield from config_changes.sort_out(request.resources, look_at)
    if not left:
        return (yield from _outcomes(decided))
    check_count(len(left))

    def ask_for(some: list[_Resource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(resources=some, validate_only=request.validate_only)

    response: IncrementalAlterConfigsResponse = yield from ask_in_chunks(
        broker, context, left, ask_for, "responses"
    )
    response.responses.extend((yield from _outcomes(decided)).responses)
    return response


def refuse(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str
) -> IncrementalAlterConfigsResponse:
    error = KafkaError(code, message)
    return _response([(one, error) for one in request.resources])


def _look_at(broker: Broker, context: RequestContext, validate_only: bool, one: _Resource) -> bool:
    """Refuse it, or say whether it is done with."""
    check_count(len(one.configs))
    config_changes.check_names(
        [option.name for option in one.configs],
        [option.name for option in one.configs if option.value is None and option.config_operation != DELETE],
    )
    kind = one.resource_type
    if kind not in (
        ConfigResource.TOPIC,
        ConfigResource.BROKER,
        ConfigResource.BROKER_LOGGER,
        ConfigResource.CLIENT_METRICS,
        ConfigResource.GROUP,
    ):
        raise config_changes.unknown_type(kind)
    if kind == ConfigResource.BROKER:
        values = _changed(broker, one)
        config_changes.check_broker_options(broker, one.resource_name, values)
    config_changes.authorize_alter(broker, context, kind, one.resource_name)
    if kind == ConfigResource.BROKER_LOGGER:
        _change_loggers(broker, one, validate_only)
        return True
    return False


def _changed(broker: Broker, one: _Resource) -> dict[str, str]:
    """What the options of a broker would be."""
    values = dict(broker.image.configs_of(ConfigResource.BROKER, one.resource_name))
    for option in one.configs:
        if option.config_operation not in _OPERATIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {option.config_operation}")
        if option.config_operation == DELETE:
            values.pop(option.name, None)
        elif option.config_operation == SET:
            values[option.name] = option.value or ""
        else:
            values[option.name] = _list_changed(broker, option, values.get(option.name))
    return values


def _list_changed(
    broker: Broker, option: IncrementalAlterConfigsRequest.AlterableConfig, known: str | None
) -> str:
    row = broker_option(option.name, broker.node.mode)
    if row is None or row.type is not Type.LIST:
        operation = _OPERATIONS[option.config_operation]
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {operation.lower()} is not allowed for config key: {option.name}",
        )
    parts = (known if known is not None else row.default or "").split(",")
    given = (option.value or "").split(",")
    if option.config_operation == APPEND:
        return ",".join([*filter(None, parts), *(part for part in given if part not in parts)])
    return ",".join(part for part in parts if part and part not in given)


def _change_loggers(broker: Broker, one: _Resource, validate_only: bool) -> None:
    config_changes.check_node_id(broker, one.resource_name, "Unexpected node id. Expected")
    for option in one.configs:
        if option.config_operation not in (SET, DELETE):
            operation = _OPERATIONS.get(option.config_operation, str(option.config_operation))
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{operation} operation is not allowed for the BROKER_LOGGER resource",
            )
        loggers.check(option.name, option.value if option.config_operation == SET else None)
    for option in () if validate_only else one.configs:
        loggers.set_level(option.name, option.value if option.config_operation == SET else None)


def _text(one: _Resource, error: KafkaError) -> str | None:
    """Of a logger, which only this broker looks at, the general text of a code is left out."""
    if one.resource_type == ConfigResource.BROKER_LOGGER:
        return own_words(error.code, error.message)
    return error.message


def _response(decided: _Outcomes) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=[_outcome(one) for one in decided])


def _outcomes(decided: _Outcomes) -> Steps[IncrementalAlterConfigsResponse]:
    """The same, a step for each."""
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=(yield from each(decided, _outcome)))


def _outcome(decided: _Outcome) -> IncrementalAlterConfigsResponse.AlterConfigsResourceResponse:
    one, error = decided
    return IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else _text(one, error),
        resource_type=one.resource_type,
        resource_name=one.resource_name,
    )
