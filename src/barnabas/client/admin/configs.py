"""Configurations of topics, brokers, groups and other resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import CONTROLLER_RETRIES, AdminCalls, outcome
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.errors.base import check
from barnabas.client.outcomes import Outcomes
from barnabas.config.layers import ConfigSource
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

V = TypeVar("V")


class ConfigResourceType(IntEnum):
    """The kinds of resources that have a configuration."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource; a broker with an empty name stands for the default of all brokers."""

    type: ConfigResourceType
    name: str


class ConfigType(IntEnum):
    """The type of an option's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class AlterOperation(IntEnum):
    """The operation on an option; APPEND and SUBTRACT apply to lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfig(NamedTuple):
    """One change of one option."""

    name: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET


class ConfigSynonym(NamedTuple):
    """Another source of a value, in order of precedence."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """An effective option; `value` is None if it is sensitive."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_sensitive: bool = False
    is_read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class _Named(Protocol):
    resource_type: int
    resource_name: str


ANY_BROKER = -1
_TYPES = frozenset(ConfigType)
_SOURCES = frozenset(ConfigSource)
_OF_ONE_BROKER = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
Config = Mapping[str, ConfigEntry]


class ConfigCalls(AdminCalls):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, Config]:
        """Return the options of resources, all of them or those in `names`."""

        def request(requested: list[ConfigResource]) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequest.Resource(
                        resource_type=config_resource.type,
                        resource_name=config_resource.name,
                        configuration_keys=None if names is None else list(names),
                    )
                    for config_resource in requested
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        async def send(
            connection: BrokerConnection, requested: list[ConfigResource]
        ) -> Mapping[ConfigResource, Config | KafkaError]:
            response = await connection.send(request(requested), DescribeConfigsResponse)
            return {
                _resource(result): outcome(result.error_code, result.error_message, _config(result.configs))
                for result in response.results
            }

        return await self._send_by_broker(list(resources), send, timeout_ms, "DescribeConfigs")

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Set, delete, append to or subtract from options (KIP-339)."""
        wanted = {resource: list(alterations) for resource, alterations in changes.items()}

        async def send(
            connection: BrokerConnection, requested: list[ConfigResource]
        ) -> Mapping[ConfigResource, KafkaError | None]:
            request = IncrementalAlterConfigsRequest(
                resources=[
                    _altered(config_resource, wanted[config_resource]) for config_resource in requested
                ],
                validate_only=validate_only,
            )
            response = await connection.send(request, IncrementalAlterConfigsResponse)
            return {
                _resource(result): outcome(result.error_code, result.error_message, None)
                for result in response.responses
            }

        return await self._send_by_broker(list(wanted), send, timeout_ms, "IncrementalAlterConfigs")

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Replace whole configurations: options that are not named return to their defaults."""

        async def send(
            connection: BrokerConnection, requested: list[ConfigResource]
        ) -> Mapping[ConfigResource, KafkaError | None]:
            request = AlterConfigsRequest(
                resources=[
                    AlterConfigsRequest.Resource(
                        resource_type=config_resource.type,
                        resource_name=config_resource.name,
                        configs=[
                            AlterConfigsRequest.AlterableConfig(name=name, value=value)
                            for name, value in configs[config_resource].items()
                        ],
                    )
                    for config_resource in requested
                ],
                validate_only=validate_only,
            )
            response = await connection.send(request, AlterConfigsResponse)
            return {
                _resource(result): outcome(result.error_code, result.error_message, None)
                for result in response.responses
            }

        return await self._send_by_broker(list(configs), send, timeout_ms, "AlterConfigs")

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """List the resources that have dynamic configurations (KIP-1142), of all types by default."""
        request = ListConfigResourcesRequest(resource_types=[int(kind) for kind in sorted(types)])
        response = await self._send_to_any(request, ListConfigResourcesResponse, timeout_ms)
        check(response.error_code)
        return [
            ConfigResource(ConfigResourceType(config_resource.resource_type), config_resource.resource_name)
            for config_resource in response.config_resources
        ]

    async def _send_by_broker(
        self,
        resources: list[ConfigResource],
        send: Callable[
            [BrokerConnection, list[ConfigResource]], Awaitable[Mapping[ConfigResource, V | KafkaError]]
        ],
        timeout_ms: int | None,
        api_name: str,
    ) -> Outcomes[ConfigResource, V]:
        """Send requests about one broker's resources to that broker, and the others to any."""

        async def attempt(left: list[ConfigResource]) -> Mapping[ConfigResource, V | KafkaError]:
            by_broker: dict[int, list[ConfigResource]] = {}
            for config_resource in left:
                by_broker.setdefault(_broker_of(config_resource), []).append(config_resource)
            results: dict[ConfigResource, V | KafkaError] = {}
            for broker, requested in by_broker.items():
                if broker >= 0:
                    results.update(await self._from_broker(broker, requested, send))
                else:
                    results.update(await send(await self.cluster.any_connection(), requested))
            return results

        return await self._each(resources, attempt, CONTROLLER_RETRIES, timeout_ms, api_name)


def _broker_of(resource: ConfigResource) -> int:
    if resource.type in _OF_ONE_BROKER and resource.name:
        if not resource.name.isdecimal():
            raise ValueError(f"a broker's configuration is named by its id, not by {resource.name!r}")
        return int(resource.name)
    return ANY_BROKER


def _resource(resource: _Named) -> ConfigResource:
    return ConfigResource(ConfigResourceType(resource.resource_type), resource.resource_name)


def _altered(
    resource: ConfigResource, changes: list[AlterConfig]
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=change.name, config_operation=change.operation, value=change.value
            )
            for change in changes
        ],
    )


def _config(entries: list[DescribeConfigsResponse.ResourceResult]) -> Config:
    return {
        entry.name: ConfigEntry(
            entry.name,
            entry.value,
            source_of(entry.config_source),
            entry.is_sensitive,
            entry.read_only,
            tuple(ConfigSynonym(each.name, each.value, source_of(each.source)) for each in entry.synonyms),
            ConfigType(entry.config_type) if entry.config_type in _TYPES else ConfigType.UNKNOWN,
            entry.documentation or None,
        )
        for entry in entries
    }


def source_of(number: int) -> ConfigSource:
    return ConfigSource(number) if number in _SOURCES else ConfigSource.UNKNOWN
