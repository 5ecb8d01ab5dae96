"""The combined subscriptions of members.  assignors/ compares the hashes with Apache Kafka's."""

from __future__ import annotations

import pytest

from barnabas.coordinator.group.subscription.subscription import (
    SubscriptionCount,
    TopicHashes,
    count_names,
    count_one,
    count_regex,
    is_homogeneous,
)
from barnabas.metadata.image import EMPTY_IMAGE
from tests.coordinator.group.worlds.consumer_world import ConsumerWorld


def test_topics_are_counted_by_name_and_by_pattern() -> None:
    counts: dict[str, SubscriptionCount] = {}
    count_names(counts, ["t", "u"], 1)
    count_names(counts, ["t"], 1)
    count_regex(counts, ["t", "v"], 1)
    assert counts == {"t": (2, 1), "u": (1, 0), "v": (0, 1)}
    count_names(counts, ["t", "u"], -1)
    count_regex(counts, ["v"], -1)
    assert counts == {"t": (1, 1)}
    count_names(counts, ["t"], -1)
    assert counts == {"t": (0, 1)}


def test_a_count_of_zero_is_removed() -> None:
    counts: dict[str, int] = {}
    for step in (1, 1, -1):
        count_one(counts, "x", step)
    count_one(counts, None, 1)
    assert counts == {"x": 1}
    count_one(counts, "x", -1)
    assert counts == {}


@pytest.mark.parametrize(
    ("regexes", "counts", "expected"),
    [
        ({}, {}, True),
        ({}, {"t": (2, 0)}, True),
        ({}, {"t": (2, 0), "u": (1, 0)}, False),
        ({"x": 2}, {"t": (0, 1)}, True),
        ({"x": 2}, {}, True),
        ({"x": 1}, {"t": (0, 1)}, False),
        ({"x": 2}, {"t": (1, 1)}, False),
        ({"x": 2, "y": 1}, {"t": (0, 2)}, False),
    ],
)
def test_homogeneous_subscriptions(
    regexes: dict[str, int], counts: dict[str, tuple[int, int]], expected: bool
) -> None:
    given = {name: SubscriptionCount(*count) for name, count in counts.items()}
    assert is_homogeneous(regexes, given, 2) is expected


def test_the_hash_changes_with_the_topics_and_only_with_them() -> None:
    world = ConsumerWorld(t=1, u=1)
    hashes = TopicHashes()
    first = hashes.of_group(["t", "u"], world.image)
    assert hashes.of_group(["u", "t"], world.image) == first
    assert hashes.of_group(["t"], world.image) != first
    world.topic("other", 1)
    assert hashes.of_group(["t", "u"], world.image) == first
    world.topic("u", 2)
    assert hashes.of_group(["t", "u"], world.image) != first
    assert -(2**63) <= first < 2**63


def test_missing_topics_are_not_hashed() -> None:
    hashes = TopicHashes()
    assert hashes.of_group(["t"], EMPTY_IMAGE) == 0
    world = ConsumerWorld(t=1)
    assert hashes.of_group(["t", "nothing"], world.image) == hashes.of_group(["t"], world.image)
    hashes.forget("t")
    assert hashes.of_group(["t"], world.image) != 0
