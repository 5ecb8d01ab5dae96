"""IncrementalAlterConfigs (api key 44).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int16, int32, string


class IncrementalAlterConfigsRequest(Message, key=44, versions=(0, 1), flexible=1):
    """Options to set, delete, append to or subtract from."""

    class AlterableConfig(Message):
        name: string
        config_operation: int8
        value: string | None

    class AlterConfigsResource(Message):
        resource_type: int8
        resource_name: string
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig]

    resources: list[AlterConfigsResource]
    validate_only: bool


class IncrementalAlterConfigsResponse(Message, key=44, versions=(0, 1), flexible=1):
    """The outcome for each resource."""

    class AlterConfigsResourceResponse(Message):
        error_code: int16
        error_message: string | None
        resource_type: int8
        resource_name: string

    throttle_time_ms: int32
    responses: list[AlterConfigsResourceResponse]
