"""DescribeConfigs (key 32, versions 1-4): every option with value, source, synonyms, type and documentation.

* Of a topic, of this broker (or, with an empty name, of all brokers), of a group, of a client metrics
  subscription (KIP-714), and the levels of this broker's loggers (KIP-412).
* The rows come from the option tables through `config.layers`; nothing is listed by hand here.
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
# The resources of one request whose options are kept, for those who ask for few of them at a time.
MAX_KNOWN = 1_000
_NOT_AUTHORIZED = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
# Options of a client metrics subscription (KIP-714) and what holds where one is not set.
_CLIENT_METRICS = {"interval.ms": (Type.INT, "300000"), "match": (Type.LIST, ""), "metrics": (Type.LIST, "")}


class _Shown(NamedTuple):
    """The options of one resource as they are answered, and where each of them stands."""

    rows: list[DescribeConfigsResponse.ResourceResult]
    positions: dict[str, int]


_Known = dict[tuple[int, str], _Shown | None]


def _shown(entries: list[Entry], request: DescribeConfigsRequest) -> _Shown:
    rows = [_row(entry, request.include_synonyms, request.include_documentation) for entry in entries]
    return _Shown(rows, {entry.name: position for position, entry in enumerate(entries)})


def handle(
    broker: Broker, request: DescribeConfigsRequest, context: RequestContext
) -> Steps[DescribeConfigsResponse]:
    """A resource that is asked for again, with the same keys, is answered once.

    Apache Kafka answers each; but a broker has more than three hundred options, so that a hundred kilobytes
    of its id would be answered by two hundred megabytes (F2).
    """
    distinct: dict[tuple[int, str, frozenset[str] | None], DescribeConfigsRequest.Resource] = {}
    for asked in request.resources:
        if asked.resource_type not in _ENTRIES:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        keys = None if asked.configuration_keys is None else frozenset(asked.configuration_keys)
        distinct.setdefault((asked.resource_type, asked.resource_name, keys), asked)
        yield None
    known: _Known = {}
    results = []
    for asked in distinct.values():
        if len(known) == MAX_KNOWN:
            known.clear()
        results.append(_result(broker, request, asked, context, known))
        yield None
    # What may not be seen comes last.
    return DescribeConfigsResponse(
        throttle_time_ms=0, results=sorted(results, key=lambda one: one.error_code in _NOT_AUTHORIZED)
    )


def refuse(request: DescribeConfigsRequest, code: ErrorCode, message: str) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        throttle_time_ms=0, results=[_refused(asked, code, message) for asked in request.resources]
    )


def _result(
    broker: Broker,
    request: DescribeConfigsRequest,
    asked: DescribeConfigsRequest.Resource,
    context: RequestContext,
    known: _Known,
) -> DescribeConfigsResponse.Result:
    resource = _key(broker, asked)
    try:
        _authorize(broker, asked, context)
        if resource not in known:
            entries = _ENTRIES[asked.resource_type](broker, asked.resource_name)
            known[resource] = None if entries is None else _shown(entries, request)
    except KafkaError as error:
        return _refused(asked, error.code, error.message)
    found = known[resource]
    if found is None:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    rows = found.rows
    if asked.configuration_keys:
        positions = {found.positions[name] for name in asked.configuration_keys if name in found.positions}
        rows = [found.rows[position] for position in sorted(positions)]
    return DescribeConfigsResponse.Result(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=rows,
    )


def _key(broker: Broker, asked: DescribeConfigsRequest.Resource) -> tuple[int, str]:
    """Under what its options are kept for this request: those that have none of their own are all alike."""
    kind, name = asked.resource_type, asked.resource_name
    if kind not in (ConfigResource.TOPIC, ConfigResource.GROUP, ConfigResource.CLIENT_METRICS):
        return kind, name
    if kind == ConfigResource.TOPIC and broker.image.topic_named(name) is None:
        return kind, name
    return kind, name if broker.image.configs_of(ConfigResource(kind), name) else ""


def _refused(
    asked: DescribeConfigsRequest.Resource, code: ErrorCode, message: str
) -> DescribeConfigsResponse.Result:
    return DescribeConfigsResponse.Result(
        error_code=code,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[],
    )


def _authorize(broker: Broker, asked: DescribeConfigsRequest.Resource, context: RequestContext) -> None:
    resource, name, error = Resource.CLUSTER, CLUSTER_NAME, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if asked.resource_type == ConfigResource.TOPIC:
        resource, name, error = Resource.TOPIC, asked.resource_name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif asked.resource_type == ConfigResource.GROUP:
        resource, name, error = Resource.GROUP, asked.resource_name, ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, resource, name):
        raise KafkaError(error)


def _row(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResponse.ResourceResult:
    # What is no option, a logger, has no text to leave out, and Apache Kafka says so with an empty one.
    no_text = "" if entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG else None
    return DescribeConfigsResponse.ResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsResponse.Synonym(name=one.name, value=one.value, source=one.source)
            for one in (entry.synonyms if synonyms else ())
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
    known = broker.image.configs_of(ConfigResource.CLIENT_METRICS, name)
    entries = []
    for option, (kind, default) in _CLIENT_METRICS.items():
        value, source = default, ConfigSource.DEFAULT_CONFIG
        synonyms: tuple[Synonym, ...] = ()
        if option in known:
            value, source = known[option], ConfigSource.CLIENT_METRICS_CONFIG
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
