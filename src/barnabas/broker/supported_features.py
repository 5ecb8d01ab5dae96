"""The features that this release can work with: what a broker registers and tells its clients (KIP-584)."""

from __future__ import annotations

from barnabas.config.settings import Settings
from barnabas.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES_BY_NAME,
    GROUP_VERSION,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    LATEST_STABLE_METADATA_VERSION,
    METADATA_VERSION,
    OLDEST_METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)

# The order in which Apache Kafka's hash table has them.  It means nothing, but it is in records and answers.
_ORDER = (
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
)


def supported_features(settings: Settings) -> dict[str, tuple[int, int]]:
    """Name to lowest and highest level; without a level above 0 a feature is not supported."""
    unstable: bool = settings["unstable.feature.versions.enable"]
    newest = LATEST_METADATA_VERSION if unstable else LATEST_STABLE_METADATA_VERSION
    found = {}
    for name in _ORDER:
        if name == METADATA_VERSION:
            found[name] = (OLDEST_METADATA_VERSION.level, newest.level)
            continue
        feature = FEATURES_BY_NAME[name]
        highest = feature.levels[-1].level if unstable else feature.latest_stable
        if highest:
            found[name] = (0, highest)
    return found
