"""Quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.base import check
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

# Pairs of type ("user", "client-id", "ip") and name, sorted by type; a name of None is the type's default.
QuotaEntity = tuple[tuple[str, str | None], ...]


class QuotaMatch(IntEnum):
    """How an entity's name is matched."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """Matches entities with a component of this type: by name, the default, or any name."""

    entity_type: str
    match: QuotaMatch = QuotaMatch.ANY
    name: str | None = None


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """New quotas of one entity; None removes a quota."""

    entity: QuotaEntity
    values: Mapping[str, float | None]


def quota_entity(**parts: str | None) -> QuotaEntity:
    """`quota_entity(user="alice", client_id=None)` is user alice with the default client id."""
    return tuple(sorted((kind.replace("_", "-"), name) for kind, name in parts.items()))


class QuotaCalls(AdminCalls):
    async def describe_client_quotas(
        self,
        components: Iterable[QuotaFilter] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        """Return the quotas of entities that have all these components, and with `strict` no others."""
        request = DescribeClientQuotasRequest(
            components=[
                DescribeClientQuotasRequest.ComponentData(
                    entity_type=component.entity_type, match_type=component.match, match=component.name
                )
                for component in components
            ],
            strict=strict,
        )
        response = await self._send_to_any(request, DescribeClientQuotasResponse, timeout_ms)
        check(response.error_code, response.error_message)
        return {
            _entity(entry.entity): {value.key: value.value for value in entry.values}
            for entry in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        alterations: Iterable[QuotaAlteration],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[QuotaEntity, None]:
        """Set or remove quotas."""
        wanted = {alteration.entity: alteration.values for alteration in alterations}

        def request(requested: list[QuotaEntity]) -> AlterClientQuotasRequest:
            return AlterClientQuotasRequest(
                entries=[_entry(entity, wanted[entity]) for entity in requested], validate_only=validate_only
            )

        def read(
            response: AlterClientQuotasResponse, _: list[QuotaEntity]
        ) -> dict[QuotaEntity, KafkaError | None]:
            by_entity = {tuple(sorted(entity)): entity for entity in wanted}
            return {
                by_entity.get(_entity(entry.entity), ()): outcome(entry.error_code, entry.error_message, None)
                for entry in response.entries
            }

        return await self._through_controller(wanted, request, AlterClientQuotasResponse, read, timeout_ms)


def _entity(
    components: Iterable[AlterClientQuotasResponse.EntityData | DescribeClientQuotasResponse.EntityData],
) -> QuotaEntity:
    return tuple(sorted((component.entity_type, component.entity_name) for component in components))


def _entry(entity: QuotaEntity, values: Mapping[str, float | None]) -> AlterClientQuotasRequest.EntryData:
    return AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ],
        ops=[
            AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )
