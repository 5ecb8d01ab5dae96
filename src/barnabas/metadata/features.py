"""Feature levels: the table of `metadata.version` and every other feature (KIP-584, KIP-1022).

Defaults and dependencies are those of Apache Kafka 4.1.  The finalized levels of a running cluster are part
of the metadata image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """One level of `metadata.version`: which metadata records may be written, and in which versions."""

    name: str
    level: int
    stable: bool = True

    @property
    def release(self) -> str:
        """The release it belongs to: `4.1` of `4.1-IV1`."""
        return self.name.partition("-")[0]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """One level of a feature."""

    level: int
    default_from: int  # The metadata.version level from which new clusters use this level by default.
    dependencies: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature with levels of its own, independent of `metadata.version`."""

    name: str
    latest_stable: int
    levels: tuple[FeatureLevel, ...]

    def default_level(self, version: MetadataVersion) -> int:
        """The level of a cluster formatted with this metadata.version, unless another level is requested."""
        return max(
            feature_level.level
            for feature_level in self.levels
            if feature_level.default_from <= version.level
        )

    def at(self, level: int, *, unstable: bool = False) -> FeatureLevel:
        """Returns a level; raises ValueError with Apache Kafka's message if it is unknown or not stable."""
        for feature_level in self.levels:
            if feature_level.level == level and (unstable or level <= self.latest_stable):
                return feature_level
        raise ValueError(f"No feature:{self.name} with feature level {level}")

    def check(self, level: int, chosen: Mapping[str, int], *, unstable: bool = False) -> None:
        """Reject a level whose dependencies are not met by the chosen levels."""
        row = self.at(level, unstable=unstable)
        for name, needed in row.dependencies.items():
            if chosen.get(name, 0) < needed:
                raise ValueError(
                    f"{self.name} could not be set to {level} because it depends on {name} level {needed}"
                )


# Levels 1 to 6 were used by clusters of 3.0 to 3.3; new clusters may not use them.
METADATA_VERSIONS = (
    MetadataVersion("3.0-IV1", 1),
    MetadataVersion("3.1-IV0", 2),
    MetadataVersion("3.2-IV0", 3),
    MetadataVersion("3.3-IV0", 4),
    MetadataVersion("3.3-IV1", 5),
    MetadataVersion("3.3-IV2", 6),
    MetadataVersion("3.3-IV3", 7),
    MetadataVersion("3.4-IV0", 8),
    MetadataVersion("3.5-IV0", 9),
    MetadataVersion("3.5-IV1", 10),
    MetadataVersion("3.5-IV2", 11),
    MetadataVersion("3.6-IV0", 12),
    MetadataVersion("3.6-IV1", 13),
    MetadataVersion("3.6-IV2", 14),
    MetadataVersion("3.7-IV0", 15),
    MetadataVersion("3.7-IV1", 16),
    MetadataVersion("3.7-IV2", 17),
    MetadataVersion("3.7-IV3", 18),
    MetadataVersion("3.7-IV4", 19),
    MetadataVersion("3.8-IV0", 20),
    MetadataVersion("3.9-IV0", 21),
    MetadataVersion("4.0-IV0", 22),
    MetadataVersion("4.0-IV1", 23),
    MetadataVersion("4.0-IV2", 24),
    MetadataVersion("4.0-IV3", 25),
    MetadataVersion("4.1-IV0", 26),
    MetadataVersion("4.1-IV1", 27),
    MetadataVersion("4.2-IV0", 28, stable=False),
    MetadataVersion("4.2-IV1", 29, stable=False),
)

_BY_LEVEL = {version.level: version for version in METADATA_VERSIONS}
OLDEST_METADATA_VERSION = _BY_LEVEL[7]
LATEST_STABLE_METADATA_VERSION = _BY_LEVEL[27]
LATEST_METADATA_VERSION = METADATA_VERSIONS[-1]
SCRAM_METADATA_VERSION = _BY_LEVEL[11]  # KIP-900: bootstrap records may contain credentials.

_ALWAYS = OLDEST_METADATA_VERSION.level

# In the order in which Apache Kafka's tools print them.
FEATURES = (
    Feature(
        KRAFT_VERSION,
        latest_stable=1,
        levels=(FeatureLevel(0, _ALWAYS), FeatureLevel(1, 21, MappingProxyType({METADATA_VERSION: 21}))),
    ),
    Feature(
        TRANSACTION_VERSION,
        latest_stable=2,
        levels=(FeatureLevel(0, _ALWAYS), FeatureLevel(1, 24), FeatureLevel(2, 24)),
    ),
    Feature(GROUP_VERSION, latest_stable=1, levels=(FeatureLevel(0, _ALWAYS), FeatureLevel(1, 22))),
    Feature(
        ELIGIBLE_LEADER_REPLICAS_VERSION,
        latest_stable=1,
        levels=(FeatureLevel(0, _ALWAYS), FeatureLevel(1, 26, MappingProxyType({METADATA_VERSION: 23}))),
    ),
    Feature(SHARE_VERSION, latest_stable=1, levels=(FeatureLevel(0, _ALWAYS), FeatureLevel(1, 28))),
    Feature(STREAMS_VERSION, latest_stable=0, levels=(FeatureLevel(0, _ALWAYS), FeatureLevel(1, 29))),
)
FEATURES_BY_NAME = {feature.name: feature for feature in FEATURES}


def supported_features(*, unstable: bool) -> dict[str, tuple[int, int]]:
    """The supported range of levels of each feature in this release (KIP-584).

    A feature without a level above 0 is not supported.
    """
    newest = LATEST_METADATA_VERSION if unstable else LATEST_STABLE_METADATA_VERSION
    supported = {METADATA_VERSION: (OLDEST_METADATA_VERSION.level, newest.level)}
    for feature in FEATURES:
        highest = feature.levels[-1].level if unstable else feature.latest_stable
        if highest > 0:
            supported[feature.name] = (0, highest)
    return supported


def metadata_version_at(level: int) -> MetadataVersion:
    """By level; raises ValueError with Apache Kafka's message if a new cluster may not use it."""
    version = _BY_LEVEL.get(level)
    if version is None or version.level < OLDEST_METADATA_VERSION.level:
        raise ValueError(
            f"No MetadataVersion with feature level {level}. Valid feature levels are from "
            f"{OLDEST_METADATA_VERSION.level} to {LATEST_METADATA_VERSION.level}."
        )
    return version


def metadata_version_named(text: str) -> MetadataVersion:
    """By name: `4.1-IV0` is that level; `4.1` and `4.1.0` are the last stable level of the release."""
    wanted = ".".join(text.split(".")[:2])
    for version in reversed(METADATA_VERSIONS[OLDEST_METADATA_VERSION.level - 1 :]):
        if version.name == wanted or (version.stable and version.release == wanted):
            return version
    raise ValueError(
        f"Version {text} is not a valid version. The minimum version is {OLDEST_METADATA_VERSION} "
        f"and the maximum version is {LATEST_METADATA_VERSION}"
    )
