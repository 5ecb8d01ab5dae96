"""UpdateFeatures (api key 57).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class UpdateFeaturesRequest(Message, key=57, versions=(0, 2), flexible=0):
    """New levels of features."""

    class FeatureUpdateKey(Message):
        feature: string
        max_version_level: int16
        allow_downgrade: bool = field("0", default=False)
        upgrade_type: int8 = field("1+", default=1)

    timeout_ms: int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: bool = field("1+", default=False)


class UpdateFeaturesResponse(Message, key=57, versions=(0, 2), flexible=0):
    """The outcome, by feature before version 2."""

    class UpdatableFeatureResult(Message):
        feature: string
        error_code: int16
        error_message: string | None

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    results: list[UpdatableFeatureResult] = field("0-1", default=[], ignorable=True)
