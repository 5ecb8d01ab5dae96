"""Validates the configs of a resource: its name, its existence, and every value.

The checks per resource type and their messages are those of Apache Kafka's controller.  Applying changes
belongs in `configs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import check_topic_name
from barnabas.config import BROKER, TOPIC, ConfigError, Option, Type
from barnabas.config.topics import topic_settings
from barnabas.controller.configs.group_options import check_group_options
from barnabas.controller.state import ControllerState
from barnabas.metadata.image import ConfigResource

# The type and name of a resource with configs; a broker with an empty name means all brokers.
Resource = tuple[int, str]

KNOWN_RESOURCES = frozenset(ConfigResource)
# Client metrics subscriptions (KIP-714): push interval, metrics, and client match patterns.
INTERVAL_MS, METRICS, MATCH = "interval.ms", "metrics", "match"
SHORTEST_INTERVAL_MS, LONGEST_INTERVAL_MS = 100, 3_600_000
MATCH_PARAMETERS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
_BROKER_NAME = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def list_default(kind: int, name: str) -> str | None:
    """Returns the default of a LIST config as text; None if the config is not a list.

    Lists of client metrics and groups can only be replaced as a whole, as in Apache Kafka.
    """
    table = {ConfigResource.TOPIC: TOPIC, ConfigResource.BROKER: BROKER}
    option: Option | None = table[ConfigResource(kind)].option(name) if kind in table else None
    if option is None or option.type is not Type.LIST:
        return None
    return option.default or ""


def check_resource(
    state: ControllerState, resource: Resource, options: Mapping[str, str], *, is_new: bool
) -> None:
    """Check the values first, then whether the resource exists."""
    kind, name = resource
    match kind:
        case ConfigResource.TOPIC:
            if not name:
                raise _invalid("Default topic resources are not allowed.")
            check_topic_name(name)
            topic_settings(options, state.settings)
        case ConfigResource.BROKER:
            _check_broker_name(name)
        case ConfigResource.CLIENT_METRICS:
            _check_client_metrics(name, options)
        case ConfigResource.GROUP:
            if not name:
                raise _invalid("Default group resources are not allowed.")
            check_group_options(options, state.settings)
        case _:
            raise _invalid(f"Unknown resource type {ConfigResource(kind).name}")
    if not is_new:
        _check_exists(state, resource)


def _check_exists(state: ControllerState, resource: Resource) -> None:
    kind, name = resource
    if kind == ConfigResource.BROKER and name:
        node_id = int(name)
        if node_id not in state.image.brokers and node_id not in state.options.controller_ids:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")
    if kind == ConfigResource.TOPIC and name not in state.image.topic_ids:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_broker_name(name: str) -> None:
    if not name:
        return
    if _BROKER_NAME.fullmatch(name) is None or int(name) >= 2**31:
        raise _invalid("Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise _invalid("Invalid negative broker ID.")


def _check_client_metrics(name: str, options: Mapping[str, str]) -> None:
    if not name:
        raise _invalid("Subscription name can't be empty")
    for option in options:
        if option not in (INTERVAL_MS, METRICS, MATCH):
            raise _invalid(f"Unknown client metrics configuration: {option}")
    if INTERVAL_MS in options:
        _check_interval(options[INTERVAL_MS])
    for pattern in options.get(MATCH, "").split(","):
        if pattern.strip():
            _check_match(pattern.strip())


def _check_interval(value: str) -> None:
    try:
        interval_ms = int(value)
    except ValueError as error:
        message = f"Invalid value {value} for configuration {INTERVAL_MS}: Not a number of type INT"
        raise ConfigError(message) from error
    if not SHORTEST_INTERVAL_MS <= interval_ms <= LONGEST_INTERVAL_MS:
        raise _invalid(
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between 100 and 3600000"
            " (1 hour)"
        )


def _check_match(pattern: str) -> None:
    parameter, equals, expression = pattern.partition("=")
    legal = bool(equals) and "=" not in expression and parameter.strip() in MATCH_PARAMETERS
    try:
        re.compile(expression.strip())
    except re.error:
        legal = False
    if not legal or not expression:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
