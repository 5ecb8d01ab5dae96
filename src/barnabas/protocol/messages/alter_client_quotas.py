"""AlterClientQuotas (api key 49).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, float64, int16, int32, string


class AlterClientQuotasRequest(Message, key=49, versions=(0, 1), flexible=1):
    """Quotas to set or remove, by entity."""

    class EntityData(Message):
        entity_type: string
        entity_name: string | None

    class OpData(Message):
        key: string
        value: float64
        remove: bool

    class EntryData(Message):
        entity: list[AlterClientQuotasRequest.EntityData]
        ops: list[AlterClientQuotasRequest.OpData]

    entries: list[EntryData]
    validate_only: bool


class AlterClientQuotasResponse(Message, key=49, versions=(0, 1), flexible=1):
    """The outcome for each entity."""

    class EntityData(Message):
        entity_type: string
        entity_name: string | None

    class EntryData(Message):
        error_code: int16
        error_message: string | None
        entity: list[AlterClientQuotasResponse.EntityData]

    throttle_time_ms: int32
    entries: list[EntryData]
