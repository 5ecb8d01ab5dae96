"""ApiVersions (api key 18).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string


class ApiVersionsRequest(Message, key=18, versions=(0, 4), flexible=3):
    """Requests the supported API versions; the first request of most clients."""

    client_software_name: string = field("3+", default="", ignorable=True)
    client_software_version: string = field("3+", default="", ignorable=True)


class ApiVersionsResponse(Message, key=18, versions=(0, 4), flexible=3):
    """Every API with its versions, and the features of the cluster."""

    class ApiVersion(Message):
        api_key: int16
        min_version: int16
        max_version: int16

    class SupportedFeatureKey(Message):
        name: string
        min_version: int16
        max_version: int16

    class FinalizedFeatureKey(Message):
        name: string
        max_version_level: int16
        min_version_level: int16

    error_code: int16
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, default=[], ignorable=True)
    finalized_features_epoch: int64 = field("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, default=[], ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, default=False, ignorable=True)
