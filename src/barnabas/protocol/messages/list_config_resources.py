"""ListConfigResources (api key 74).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class ListConfigResourcesRequest(Message, key=74, versions=(0, 1), flexible=0):
    """Requests the resources that have a configuration."""

    resource_types: list[int8] = field("1+", default=[])


class ListConfigResourcesResponse(Message, key=74, versions=(0, 1), flexible=0):
    """The resources, by type and name."""

    class ConfigResource(Message):
        resource_name: string
        resource_type: int8 = field("1+", default=16, ignorable=True)

    throttle_time_ms: int32
    error_code: int16
    config_resources: list[ConfigResource]
