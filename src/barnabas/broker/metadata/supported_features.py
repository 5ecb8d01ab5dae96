"""The features that a broker registers and announces to clients, in Apache Kafka's order (KIP-584)."""

from __future__ import annotations

from barnabas.base.java_order import hash_map_order
from barnabas.config.settings import Settings
from barnabas.metadata import features


def supported_features(settings: Settings) -> dict[str, tuple[int, int]]:
    """Returns the min and max level by name.  The order has no meaning, but is visible in responses."""
    supported = features.supported_features(unstable=settings["unstable.feature.versions.enable"])
    return {name: supported[name] for name in hash_map_order(supported)}
