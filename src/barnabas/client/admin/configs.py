"""Configurations of topics, brokers, groups and the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import CONTROLLER_RETRIES, AdminCalls, outcome
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.errors.kinds import check
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
    """What has a configuration."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One of them; a broker with an empty name is the default of all brokers."""

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
    """What is done to an option; the last two are for lists."""

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
    """Where else a value could come from, nearest first."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """An option as it is in effect; `value` is None when it is secret."""

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
        """The options of resources, all of them or those in `names`."""

        def request(some: list[ConfigResource]) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequest.Resource(
                        resource_type=one.type,
                        resource_name=one.name,
                        configuration_keys=None if names is None else list(names),
                    )
                    for one in some
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        async def ask(
            connection: BrokerConnection, some: list[ConfigResource]
        ) -> Mapping[ConfigResource, Config | KafkaError]:
            answer = await connection.ask(request(some), DescribeConfigsResponse)
            return {
                _resource(one): outcome(one.error_code, one.error_message, _config(one.configs))
                for one in answer.results
            }

        return await self._by_place(list(resources), ask, timeout_ms, "DescribeConfigs")

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Set, delete, append to or subtract from options (KIP-339)."""
        wanted = {resource: list(some) for resource, some in changes.items()}

        async def ask(
            connection: BrokerConnection, some: list[ConfigResource]
        ) -> Mapping[ConfigResource, KafkaError | None]:
            request = IncrementalAlterConfigsRequest(
                resources=[_altered(one, wanted[one]) for one in some], validate_only=validate_only
            )
            answer = await connection.ask(request, IncrementalAlterConfigsResponse)
            return {
                _resource(one): outcome(one.error_code, one.error_message, None) for one in answer.responses
            }

        return await self._by_place(list(wanted), ask, timeout_ms, "IncrementalAlterConfigs")

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Replace whole configurations: what is not named goes back to its default."""

        async def ask(
            connection: BrokerConnection, some: list[ConfigResource]
        ) -> Mapping[ConfigResource, KafkaError | None]:
            request = AlterConfigsRequest(
                resources=[
                    AlterConfigsRequest.Resource(
                        resource_type=one.type,
                        resource_name=one.name,
                        configs=[
                            AlterConfigsRequest.AlterableConfig(name=name, value=value)
                            for name, value in configs[one].items()
                        ],
                    )
                    for one in some
                ],
                validate_only=validate_only,
            )
            answer = await connection.ask(request, AlterConfigsResponse)
            return {
                _resource(one): outcome(one.error_code, one.error_message, None) for one in answer.responses
            }

        return await self._by_place(list(configs), ask, timeout_ms, "AlterConfigs")

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """Which resources have options of their own (KIP-1142); of all types unless some are named."""
        request = ListConfigResourcesRequest(resource_types=[int(one) for one in sorted(types)])
        answer = await self._ask_any(request, ListConfigResourcesResponse, timeout_ms)
        check(answer.error_code)
        return [
            ConfigResource(ConfigResourceType(one.resource_type), one.resource_name)
            for one in answer.config_resources
        ]

    async def _by_place(
        self,
        resources: list[ConfigResource],
        ask: Callable[
            [BrokerConnection, list[ConfigResource]], Awaitable[Mapping[ConfigResource, V | KafkaError]]
        ],
        timeout_ms: int | None,
        what: str,
    ) -> Outcomes[ConfigResource, V]:
        """What belongs to one broker is asked of that broker, the rest of any."""

        async def attempt(left: list[ConfigResource]) -> Mapping[ConfigResource, V | KafkaError]:
            by_broker: dict[int, list[ConfigResource]] = {}
            for one in left:
                by_broker.setdefault(_broker_of(one), []).append(one)
            found: dict[ConfigResource, V | KafkaError] = {}
            for broker, some in by_broker.items():
                if broker >= 0:
                    found.update(await self._from_broker(broker, some, ask))
                else:
                    found.update(await ask(await self.cluster.any_connection(), some))
            return found

        return await self._each(resources, attempt, CONTROLLER_RETRIES, timeout_ms, what)


def _broker_of(resource: ConfigResource) -> int:
    if resource.type in _OF_ONE_BROKER and resource.name:
        if not resource.name.isdecimal():
            raise ValueError(f"a broker's configuration is named by its id, not by {resource.name!r}")
        return int(resource.name)
    return ANY_BROKER


def _resource(one: _Named) -> ConfigResource:
    return ConfigResource(ConfigResourceType(one.resource_type), one.resource_name)


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


def _config(told: list[DescribeConfigsResponse.ResourceResult]) -> Config:
    return {
        one.name: ConfigEntry(
            one.name,
            one.value,
            source_of(one.config_source),
            one.is_sensitive,
            one.read_only,
            tuple(ConfigSynonym(each.name, each.value, source_of(each.source)) for each in one.synonyms),
            ConfigType(one.config_type) if one.config_type in _TYPES else ConfigType.UNKNOWN,
            one.documentation or None,
        )
        for one in told
    }


def source_of(number: int) -> ConfigSource:
    return ConfigSource(number) if number in _SOURCES else ConfigSource.UNKNOWN
