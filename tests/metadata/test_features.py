"""Feature levels, as in Apache Kafka 4.1."""

from __future__ import annotations

import pytest

from barnabas.metadata.features import (
    FEATURES,
    FEATURES_BY_NAME,
    LATEST_STABLE_METADATA_VERSION,
    METADATA_VERSIONS,
    metadata_version_at,
    metadata_version_named,
    supported_features,
)


def test_levels_are_numbered_upwards_without_gaps() -> None:
    assert [version.level for version in METADATA_VERSIONS] == list(range(1, 30))
    assert len({version.name for version in METADATA_VERSIONS}) == 29


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("3.3", "3.3-IV3"),
        ("3.5", "3.5-IV2"),
        ("3.9", "3.9-IV0"),
        ("3.9.1", "3.9-IV0"),
        ("4.0", "4.0-IV3"),
        ("4.1", "4.1-IV1"),
        ("4.1.0", "4.1-IV1"),
        ("4.1-IV0", "4.1-IV0"),
        ("4.2-IV1", "4.2-IV1"),
    ],
)
def test_a_release_means_its_last_stable_level(text: str, name: str) -> None:
    assert metadata_version_named(text).name == name


@pytest.mark.parametrize("text", ["4.2", "3.3-IV0", "2.8", "4.1-IV9", "x", "4", "", "4.0-IV3 "])
def test_unknown_names_are_rejected(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"The minimum version is 3.3-IV3 and the maximum version is 4.2-IV1"
    ):
        metadata_version_named(text)


@pytest.mark.parametrize("level", [-1, 0, 6, 30, 99])
def test_unknown_levels_are_rejected(level: int) -> None:
    with pytest.raises(
        ValueError, match=f"No MetadataVersion with feature level {level}. Valid feature levels"
    ):
        metadata_version_at(level)


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("3.3", (0, 0, 0, 0, 0, 0)),
        ("3.9", (1, 0, 0, 0, 0, 0)),
        ("4.0-IV0", (1, 0, 1, 0, 0, 0)),
        ("4.0", (1, 2, 1, 0, 0, 0)),
        ("4.1", (1, 2, 1, 1, 0, 0)),
        ("4.2-IV0", (1, 2, 1, 1, 1, 0)),
        ("4.2-IV1", (1, 2, 1, 1, 1, 1)),
    ],
)
def test_defaults_follow_the_release(release: str, levels: tuple[int, ...]) -> None:
    version = metadata_version_named(release)
    assert tuple(feature.default_level(version) for feature in FEATURES) == levels


def test_unstable_levels_must_be_enabled() -> None:
    streams = FEATURES_BY_NAME["streams.version"]
    with pytest.raises(ValueError, match=r"No feature:streams.version with feature level 1"):
        streams.at(1)
    assert streams.at(1, unstable=True).level == 1


def test_dependencies_are_checked() -> None:
    kraft = FEATURES_BY_NAME["kraft.version"]
    kraft.check(1, {"metadata.version": 21})
    with pytest.raises(
        ValueError,
        match=r"kraft.version could not be set to 1 because it depends on metadata.version level 21",
    ):
        kraft.check(1, {"metadata.version": 20})


def test_the_newest_release_is_4_1() -> None:
    assert str(LATEST_STABLE_METADATA_VERSION) == "4.1-IV1"
    assert LATEST_STABLE_METADATA_VERSION.release == "4.1"


def test_supported_features_exclude_unstable_levels() -> None:
    stable, all_of_them = supported_features(unstable=False), supported_features(unstable=True)
    assert stable["metadata.version"] == (7, 27) and all_of_them["metadata.version"] == (7, 29)
    assert stable["share.version"] == (0, 1)
    assert "streams.version" not in stable and all_of_them["streams.version"] == (0, 1)
