"""AlterConfigs (api key 33).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int16, int32, string


class AlterConfigsRequest(Message, key=33, versions=(0, 2), flexible=2):
    """The whole configuration of resources, replacing the previous one."""

    class AlterableConfig(Message):
        name: string
        value: string | None

    class Resource(Message):
        resource_type: int8
        resource_name: string
        configs: list[AlterConfigsRequest.AlterableConfig]

    resources: list[Resource]
    validate_only: bool


class AlterConfigsResponse(Message, key=33, versions=(0, 2), flexible=2):
    """The outcome for each resource."""

    class ResourceResponse(Message):
        error_code: int16
        error_message: string | None
        resource_type: int8
        resource_name: string

    throttle_time_ms: int32
    responses: list[ResourceResponse]
