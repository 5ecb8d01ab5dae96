"""DescribeConfigs (api key 32).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class DescribeConfigsRequest(Message, key=32, versions=(1, 4), flexible=4):
    """Resources and options to describe; null means all."""

    class Resource(Message):
        resource_type: int8
        resource_name: string
        configuration_keys: list[string] | None

    resources: list[Resource]
    include_synonyms: bool = field(default=False)
    include_documentation: bool = field("3+", default=False)


class DescribeConfigsResponse(Message, key=32, versions=(1, 4), flexible=4):
    """Every option with value, source, synonyms and type."""

    class Synonym(Message):
        name: string
        value: string | None
        source: int8

    class ResourceResult(Message):
        name: string
        value: string | None
        read_only: bool
        config_source: int8 = field(default=-1)
        is_sensitive: bool
        synonyms: list[DescribeConfigsResponse.Synonym]
        config_type: int8 = field("3+", default=0, ignorable=True)
        documentation: string | None = field("3+", default="", ignorable=True)

    class Result(Message):
        error_code: int16
        error_message: string | None
        resource_type: int8
        resource_name: string
        configs: list[DescribeConfigsResponse.ResourceResult]

    throttle_time_ms: int32
    results: list[Result]
