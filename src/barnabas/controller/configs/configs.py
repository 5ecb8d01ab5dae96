"""IncrementalAlterConfigs (KIP-339) and AlterConfigs: configs of topics, brokers, groups, client metrics.

Contains the resulting configs of a resource and their records.  Validation of values belongs in
`config_checks`; what only the receiving broker can check belongs in the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.java_order import hash_map_order
from barnabas.controller.configs.config_checks import KNOWN_RESOURCES, Resource, check_resource, list_default
from barnabas.controller.decision import NO_ERROR, ApiError, Context, Decision
from barnabas.controller.state import MIN_ISR, ControllerState
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.records.metadata import ClearElrRecord, ConfigRecord
from barnabas.protocol.schema import Message

ResourceResponse = TypeVar("ResourceResponse", bound=Message)

MAX_VALUE_LENGTH = 2**15 - 1


class OpType(IntEnum):
    """The operation on a config, by its number in requests."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


# The operation, by its number, and its value.
Change = tuple[int, str | None]


def incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest, context: Context
) -> Decision:
    """Set, delete, append to or subtract from individual configs."""
    changes: dict[Resource, dict[str, Change]] = {
        (resource.resource_type, resource.resource_name): {
            config.name: (config.config_operation, config.value) for config in resource.configs
        }
        for resource in request.resources
    }
    result = _AlterResult(
        [(resource.resource_type, resource.resource_name) for resource in request.resources]
    )
    result.alter_all(lambda resource: alter_resource(state, resource, changes[resource]))
    response = IncrementalAlterConfigsResponse(
        throttle_time_ms=0,
        responses=result.responses(IncrementalAlterConfigsResponse.AlterConfigsResourceResponse),
    )
    return Decision([] if request.validate_only else result.records, response)


def alter_configs(state: ControllerState, request: AlterConfigsRequest, context: Context) -> Decision:
    """Replace all configs of a resource."""
    requested = {
        (resource.resource_type, resource.resource_name): {
            config.name: config.value for config in resource.configs
        }
        for resource in request.resources
    }
    result = _AlterResult(
        [(resource.resource_type, resource.resource_name) for resource in request.resources]
    )
    result.alter_all(lambda resource: _replace_all(state, resource, requested[resource]))
    response = AlterConfigsResponse(
        throttle_time_ms=0, responses=result.responses(AlterConfigsResponse.ResourceResponse)
    )
    return Decision([] if request.validate_only else result.records, response)


class _AlterResult:
    """Each resource is altered or rejected individually; the records form one batch."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.records: list[Message] = []
        self.api_errors: list[tuple[Resource, ApiError]] = []
        self._resources = resources

    def alter_all(self, alter: Callable[[Resource], list[Message]]) -> None:
        for resource in dict.fromkeys(self._resources):
            self.api_errors.append((resource, self._alter_one(resource, alter)))

    def responses(self, make: Callable[..., ResourceResponse]) -> list[ResourceResponse]:
        return [
            make(
                error_code=api_error.code,
                error_message=api_error.message,
                resource_type=kind,
                resource_name=name,
            )
            for (kind, name), api_error in self.api_errors
        ]

    def _alter_one(self, resource: Resource, alter: Callable[[Resource], list[Message]]) -> ApiError:
        kind = resource[0]
        if kind not in KNOWN_RESOURCES:
            return ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {kind}.")
        if self._resources.count(resource) > 1:
            return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
        try:
            self.records += alter(resource)
        except KafkaError as error:
            return ApiError.of(error)
        return NO_ERROR


def alter_resource(
    state: ControllerState, resource: Resource, changes: Mapping[str, Change], *, is_new: bool = False
) -> list[Message]:
    """Returns the records of these changes; also used for a topic that is being created."""
    current = state.image.configs_of(*resource)
    altered: dict[str, str | None] = {}
    for name in hash_map_order(changes):
        value = _new_value(resource, name, current.get(name), changes[name])
        # A broker reloads its files when a config is set to its current value (KIP-226).
        if value != current.get(name) or resource[0] == ConfigResource.BROKER:
            altered[name] = value
    return _checked_records(state, resource, altered, (), is_new=is_new)


def _new_value(resource: Resource, name: str, current: str | None, change: Change) -> str | None:
    operation, value = change
    match operation:
        case OpType.SET:
            return value
        case OpType.DELETE:
            return None
        case OpType.APPEND | OpType.SUBTRACT:
            return _new_list(resource, name, current, OpType(operation), value or "")
    # Apache Kafka fails on an unknown operation with this error and no message.
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _new_list(resource: Resource, name: str, current: str | None, operation: OpType, value: str) -> str:
    default = list_default(resource[0], name)
    if default is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {name} because its type is not LIST.",
        )
    items = [item for item in (default if current is None else current).split(",") if item]
    for item in value.split(","):
        if operation is OpType.APPEND:
            items += [item] if item not in items else []
        elif item in items:
            items.remove(item)
    return ",".join(items)


def _replace_all(
    state: ControllerState, resource: Resource, requested: Mapping[str, str | None]
) -> list[Message]:
    current = state.image.configs_of(*resource)
    altered = {
        name: requested[name]
        for name in hash_map_order(requested)
        if requested[name] != current.get(name) or resource[0] == ConfigResource.BROKER
    }
    removed = [name for name in hash_map_order(sorted(current)) if name not in requested]
    return _checked_records(state, resource, altered, removed, is_new=False)


def _checked_records(
    state: ControllerState,
    resource: Resource,
    altered: Mapping[str, str | None],
    removed: Iterable[str],
    *,
    is_new: bool,
) -> list[Message]:
    """Returns the records if the resulting configs are valid."""
    before = dict(state.image.configs_of(*resource))
    after = dict(before)
    for name, value in (*altered.items(), *((name, None) for name in removed)):
        _check_min_isr(state, resource, name, value)
        if value is None:
            after.pop(name, None)
            continue
        if len(value) > MAX_VALUE_LENGTH:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of"
                f" {MAX_VALUE_LENGTH} bytes.",
            )
        after[name] = value
    check_resource(state, resource, after, is_new=is_new)
    if state.options.alter_config_policy is not None:
        state.options.alter_config_policy(*resource, altered)
    changed = [*altered.items(), *((name, None) for name in removed)]
    records: list[Message] = [
        ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)
        for name, value in changed
    ]
    if state.elr_enabled and any(name == MIN_ISR for name, _ in changed):
        # Replicas that were eligible under the old value may not be under the new one (KIP-966).  As in
        # Apache Kafka, also if all brokers get the value that they have.
        is_topic = resource[0] == ConfigResource.TOPIC
        records.append(ClearElrRecord(topic_name=resource[1] if is_topic else ""))
    return records


def _check_min_isr(state: ControllerState, resource: Resource, name: str, value: str | None) -> None:
    """With eligible leader replicas the value must be the same for all brokers, and known."""
    if name != MIN_ISR or resource[0] != ConfigResource.BROKER or not state.elr_enabled:
        return
    if resource[1]:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
        )
    if value is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
        )
