"""Validation of config changes by the broker, shared by AlterConfigs and IncrementalAlterConfigs.

Contains duplicate checks, authorization and broker options (only a broker knows its own file).  Valid changes
are forwarded to the controller, which makes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.broker.security.tls_setup import has_tls_option, same_tls_options
from barnabas.config.errors import ConfigError
from barnabas.config.layers import check_dynamic
from barnabas.config.node.dynamic_rules import check_step
from barnabas.config.node.listeners import read_listeners
from barnabas.config.node.rules import check_rules
from barnabas.config.settings import Settings
from barnabas.metadata.image import ConfigResource

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

_AUTHORIZED_BY = {
    ConfigResource.TOPIC: (Resource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ConfigResource.GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}


class NamedResource(Protocol):
    """A resource of either request."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=NamedResource)


def validate_all(
    resources: Iterable[R], validate: Callable[[R], bool]
) -> Steps[tuple[list[R], list[tuple[R, KafkaError | None]]]]:
    """Returns the resources for the controller, and the outcomes of those that are decided here.

    `validate` raises if a resource is refused, and returns whether it needs no request to the controller.
    """
    resources = list(resources)
    seen: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        seen[resource.resource_type, resource.resource_name] += 1
        yield None
    repeated = KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    remaining: list[R] = []
    decided: list[tuple[R, KafkaError | None]] = []
    for resource in resources:
        yield None
        if seen[resource.resource_type, resource.resource_name] > 1:
            decided.append((resource, repeated))
            continue
        try:
            if validate(resource):
                decided.append((resource, None))
            else:
                remaining.append(resource)
        except KafkaError as error:
            # Kept without its traceback, which references the validated resource: there may be thousands.
            error.__cause__ = error.__context__ = None
            decided.append((resource, error.with_traceback(None)))
    return remaining, decided


def check_names(names: Iterable[str], null_names: Iterable[str]) -> None:
    """Raises if an option is named more than once or has a null value."""
    if any(count > 1 for count in Counter(names).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = ", ".join(null_names)
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}")


def authorize_alter(broker: Broker, context: RequestContext, resource_type: int, name: str) -> None:
    """Raises if the principal may not alter this resource's options."""
    resource, error = Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if resource_type in _AUTHORIZED_BY:
        resource, error = _AUTHORIZED_BY[ConfigResource(resource_type)]
    resource_name = CLUSTER_NAME if resource is Resource.CLUSTER else name
    if not broker.authorizer.allows(context, Operation.ALTER_CONFIGS, resource, resource_name):
        raise KafkaError(error)


def check_node_id(broker: Broker, name: str, refusal: str) -> None:
    """Raises unless the name is this broker's id."""
    try:
        node_id = int(name)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        ) from error
    if node_id != broker.node.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{refusal} {broker.node.node_id}, but received {name}",
        )


def check_broker_options(broker: Broker, name: str, values: Mapping[str, str]) -> None:
    """Raises if this broker (or any, with an empty name) cannot apply the options dynamically (KIP-226)."""
    if name:
        check_node_id(broker, name, "Unexpected broker id, expected")
    try:
        check_dynamic(values, per_broker=bool(name), mode=broker.node.mode)
        layers = broker.layers.with_broker(values) if name else broker.layers.with_cluster(values)
        settings = layers.settings()
        read_listeners(settings)
        _check_rules(settings)
        check_step(broker.settings, settings)
        if name and has_tls_option(values):
            _check_tls(broker, settings)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def _check_tls(broker: Broker, settings: Settings) -> None:
    """As in Apache Kafka, naming the same files again loads what they contain now."""
    broker.security.tls.check(settings)
    if same_tls_options(broker.settings, settings):
        broker.security.tls.apply(settings)


def _check_rules(settings: Settings) -> None:
    """Applies the rules for configuration files, with the error text of a dynamic change."""
    try:
        check_rules(settings)
    except ConfigError as error:
        raise ConfigError(f"requirement failed: {error.message}") from error


def unknown_type(resource_type: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
