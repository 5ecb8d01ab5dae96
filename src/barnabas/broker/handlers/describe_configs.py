"""DescribeConfigs (key 32, versions 1-4): every option with value, source, synonyms, type and documentation.

* Resources: topics, this broker (or, with an empty name, all brokers), groups, client metrics subscriptions
  (KIP-714), and the log levels of this broker's loggers (KIP-412).
* The rows come from the option tables through `config.layers`; no option is listed here.
* Synonyms: KIP-226.  Types and documentation: KIP-569.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import check_topic_name
from barnabas.broker.admin import loggers
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.config.layers import ConfigSource, Entry, Synonym
from barnabas.config.option import Type
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 32
UNKNOWN_TYPE = 0
_TYPE_NUMBERS = {
    Type.BOOLEAN: 1,
    Type.STRING: 2,
    Type.INT: 3,
    Type.SHORT: 4,
    Type.LONG: 5,
    Type.DOUBLE: 6,
    Type.LIST: 7,
    Type.CLASS: 8,
    Type.PASSWORD: 9,
}
# The resources of one request whose options are cached, for clients that request a few keys at a time.
MAX_CACHED = 1_000
_NOT_AUTHORIZED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
# Options of a client metrics subscription (KIP-714) with type and default.
_CLIENT_METRICS = {"interval.ms": (Type.INT, "300000"), "match": (Type.LIST, ""), "metrics": (Type.LIST, "")}


class _Rows(NamedTuple):
    """The rows of one resource, and the position of each option in them."""

    rows: list[DescribeConfigsResponse.ResourceResult]
    positions: dict[str, int]


_Described = dict[tuple[int, str], _Rows | None]


def _rows_of(entries: list[Entry], request: DescribeConfigsRequest) -> _Rows:
    rows = [_row(entry, request.include_synonyms, request.include_documentation) for entry in entries]
    return _Rows(rows, {entry.name: position for position, entry in enumerate(entries)})


def handle(
    broker: Broker, request: DescribeConfigsRequest, context: RequestContext
) -> Steps[DescribeConfigsResponse]:
    """A resource that is requested more than once with the same keys is described once.

    Apache Kafka describes it each time; but a broker has more than three hundred options, so that a request
    of a hundred kilobytes would get a response of two hundred megabytes (F2).
    """
    distinct: dict[tuple[int, str, frozenset[str] | None], DescribeConfigsRequest.Resource] = {}
    for resource in request.resources:
        if resource.resource_type not in _ENTRIES:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        keys = None if resource.configuration_keys is None else frozenset(resource.configuration_keys)
        distinct.setdefault((resource.resource_type, resource.resource_name, keys), resource)
        yield None
    described: _Described = {}
    results = []
    for resource in distinct.values():
        if len(described) == MAX_CACHED:
            described.clear()
        results.append(_result(broker, request, resource, context, described))
        yield None
    # Resources that are not authorized come last.
    return DescribeConfigsResponse(
        throttle_time_ms=0, results=sorted(results, key=lambda result: result.error_code in _NOT_AUTHORIZED)
    )


def refuse(request: DescribeConfigsRequest, code: ErrorCode, message: str) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        throttle_time_ms=0, results=[_refused(resource, code, message) for resource in request.resources]
    )


def _result(
    broker: Broker,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsRequest.Resource,
    context: RequestContext,
    described: _Described,
) -> DescribeConfigsResponse.Result:
    key = _key(broker, resource)
    try:
        _authorize(broker, resource, context)
        if key not in described:
            entries = _ENTRIES[resource.resource_type](broker, resource.resource_name)
            described[key] = None if entries is None else _rows_of(entries, request)
    except KafkaError as error:
        return _refused(resource, error.code, error.message)
    cached = described[key]
    if cached is None:
        return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    rows = cached.rows
    if resource.configuration_keys:
        positions = {
            cached.positions[name] for name in resource.configuration_keys if name in cached.positions
        }
        rows = [cached.rows[position] for position in sorted(positions)]
    return DescribeConfigsResponse.Result(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=rows,
    )


def _key(broker: Broker, resource: DescribeConfigsRequest.Resource) -> tuple[int, str]:
    """Returns the cache key of the resource's options: all resources without own options share one."""
    resource_type, name = resource.resource_type, resource.resource_name
    if resource_type not in (ConfigResource.TOPIC, ConfigResource.GROUP, ConfigResource.CLIENT_METRICS):
        return resource_type, name
    if resource_type == ConfigResource.TOPIC and broker.image.topic_named(name) is None:
        return resource_type, name
    return resource_type, name if broker.image.configs_of(ConfigResource(resource_type), name) else ""


def _refused(
    resource: DescribeConfigsRequest.Resource, code: ErrorCode, message: str
) -> DescribeConfigsResponse.Result:
    return DescribeConfigsResponse.Result(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def _authorize(broker: Broker, resource: DescribeConfigsRequest.Resource, context: RequestContext) -> None:
    kind, name, error = Resource.CLUSTER, CLUSTER_NAME, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if resource.resource_type == ConfigResource.TOPIC:
        kind, name, error = (
            Resource.TOPIC,
            resource.resource_name,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    elif resource.resource_type == ConfigResource.GROUP:
        kind, name, error = (
            Resource.GROUP,
            resource.resource_name,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
        )
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, kind, name):
        raise KafkaError(error)


def _row(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResponse.ResourceResult:
    # Loggers have no documentation, which Apache Kafka returns as an empty string.
    no_text = "" if entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG else None
    return DescribeConfigsResponse.ResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsResponse.Synonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if synonyms else ())
        ],
        config_type=UNKNOWN_TYPE if entry.type is None else _TYPE_NUMBERS[entry.type],
        documentation=entry.doc if documentation else no_text,
    )


def _topic_entries(broker: Broker, name: str) -> list[Entry] | None:
    check_topic_name(name)
    if broker.image.topic_named(name) is None:
        return None
    return broker.layers.describe_topic(broker.image.configs_of(ConfigResource.TOPIC, name))


def _broker_entries(broker: Broker, name: str) -> list[Entry]:
    if not name:
        return broker.layers.describe_cluster()
    _check_id(broker, name, " or empty string,")
    return broker.layers.describe_broker()


def _logger_entries(broker: Broker, name: str) -> list[Entry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_id(broker, name, "")
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        Entry(logger, level, source, None, False, False, (), "") for logger, level in loggers.levels().items()
    ]


def _check_id(broker: Broker, name: str, otherwise: str) -> None:
    try:
        node_id = int(name)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        ) from error
    if node_id != broker.node.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node.node_id}{otherwise} but received {name}",
        )


def _group_entries(broker: Broker, name: str) -> list[Entry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return broker.layers.describe_group(broker.image.configs_of(ConfigResource.GROUP, name))


def _client_metrics_entries(broker: Broker, name: str) -> list[Entry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    configs = broker.image.configs_of(ConfigResource.CLIENT_METRICS, name)
    entries = []
    for option, (kind, default) in _CLIENT_METRICS.items():
        value, source = default, ConfigSource.DEFAULT_CONFIG
        synonyms: tuple[Synonym, ...] = ()
        if option in configs:
            value, source = configs[option], ConfigSource.CLIENT_METRICS_CONFIG
            synonyms = (Synonym(option, value, source),)
        entries.append(Entry(option, value, source, kind, False, False, synonyms, None))
    return entries


_ENTRIES: dict[int, Callable[[Broker, str], list[Entry] | None]] = {
    ConfigResource.TOPIC: _topic_entries,
    ConfigResource.BROKER: _broker_entries,
    ConfigResource.BROKER_LOGGER: _logger_entries,
    ConfigResource.CLIENT_METRICS: _client_metrics_entries,
    ConfigResource.GROUP: _group_entries,
}
