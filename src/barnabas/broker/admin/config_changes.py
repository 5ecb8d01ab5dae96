"""Changes of options that a broker looks at before the controller does.

What lives here: what AlterConfigs and IncrementalAlterConfigs have in common: requests that contradict
themselves, options of brokers (only a broker knows its own file), levels of loggers (which are not metadata
at all).  What may not: making a change; what passes goes to the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
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
    """What both requests have."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=NamedResource)


def sort_out(
    resources: Iterable[R], look_at: Callable[[R], bool]
) -> Steps[tuple[list[R], list[tuple[R, KafkaError | None]]]]:
    """Part what the controller is to decide from what is decided here, with the outcome of each.

    `look_at` raises, or says whether the resource is done with.
    """
    resources = list(resources)
    seen: Counter[tuple[int, str]] = Counter()
    for one in resources:
        seen[one.resource_type, one.resource_name] += 1
        yield None
    repeated = KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    left: list[R] = []
    decided: list[tuple[R, KafkaError | None]] = []
    for one in resources:
        yield None
        if seen[one.resource_type, one.resource_name] > 1:
            decided.append((one, repeated))
            continue
        try:
            if look_at(one):
                decided.append((one, None))
            else:
                left.append(one)
        except KafkaError as error:
            # Kept without its trace, which holds all that was looked at: thousands may be kept.
            error.__cause__ = error.__context__ = None
            decided.append((one, error.with_traceback(None)))
    return left, decided


def check_names(names: Iterable[str], null_names: Iterable[str]) -> None:
    """Refuse an option that is named twice, or set to nothing."""
    if any(count > 1 for count in Counter(names).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = ", ".join(null_names)
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}")


def authorize_alter(broker: Broker, context: RequestContext, kind: int, name: str) -> None:
    """Refuse whoever may not alter this resource's options."""
    resource, error = Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if kind in _AUTHORIZED_BY:
        resource, error = _AUTHORIZED_BY[ConfigResource(kind)]
    asked = CLUSTER_NAME if resource is Resource.CLUSTER else name
    if not broker.authorizer.allows(context, Operation.ALTER_CONFIGS, resource, asked):
        raise KafkaError(error)


def check_node_id(broker: Broker, name: str, refusal: str) -> None:
    """A broker speaks for itself only."""
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
    """Refuse what this broker, or with an empty name every broker, could not take while it runs (KIP-226)."""
    if name:
        check_node_id(broker, name, "Unexpected broker id, expected")
    try:
        check_dynamic(values, per_broker=bool(name), mode=broker.node.mode)
        layers = broker.layers.with_broker(values) if name else broker.layers.with_cluster(values)
        wanted = layers.settings()
        read_listeners(wanted)
        _require(wanted)
        check_step(broker.settings, wanted)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def _require(wanted: Settings) -> None:
    """The rules of a file, in the words of a running broker."""
    try:
        check_rules(wanted)
    except ConfigError as error:
        raise ConfigError(f"requirement failed: {error.message}") from error


def unknown_type(kind: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
