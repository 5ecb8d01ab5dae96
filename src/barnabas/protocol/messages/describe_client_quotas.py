"""DescribeClientQuotas (api key 48).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, float64, int8, int16, int32, string


class DescribeClientQuotasRequest(Message, key=48, versions=(0, 1), flexible=1):
    """A filter for quota entities."""

    class ComponentData(Message):
        entity_type: string
        match_type: int8
        match: string | None

    components: list[ComponentData]
    strict: bool


class DescribeClientQuotasResponse(Message, key=48, versions=(0, 1), flexible=1):
    """The matching entities and their quotas."""

    class EntityData(Message):
        entity_type: string
        entity_name: string | None

    class ValueData(Message):
        key: string
        value: float64

    class EntryData(Message):
        entity: list[DescribeClientQuotasResponse.EntityData]
        values: list[DescribeClientQuotasResponse.ValueData]

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    entries: list[EntryData] | None
