"""Subscription patterns: RE2 syntax, and when and how patterns are resolved."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.group.subscription.regexes import MIN_REFRESH_INTERVAL_MS, check, resolve
from barnabas.metadata.delta import Delta
from barnabas.protocol.records.metadata import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.coordinator.group.worlds.consumer_world import ConsumerWorld, check_invariants

PATTERN = "t.*"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[abc", "missing closing ]"),
        ("(abc", "missing closing )"),
        ("abc)", "unexpected )"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("(?=x)", "invalid or unsupported Perl syntax"),
        ("(?!x)", "invalid or unsupported Perl syntax"),
        ("\\", "trailing backslash at end of expression"),
        ("[b-a]", "invalid character class range"),
        ("\\8", "invalid escape sequence"),
        ("\\C", "invalid escape sequence"),
        ("(?P<n", "invalid named capture"),
    ],
)
def test_patterns_that_re2_rejects_fail_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == (
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    )


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("t", {"t"}),
        ("t.*", {"t", "t1", "t-2"}),
        ("T.*", set()),
        ("(?i)T.", {"t1"}),
        ("t\\d", {"t1"}),
        ("[[:alpha:]]", {"t", "x"}),
        ("t|x", {"t", "x"}),
        ("t\\Q-\\E2", {"t-2"}),
        ("\\\\C", set()),
        ("", set()),
    ],
)
def test_a_pattern_must_match_the_whole_topic_name(pattern: str, topics: set[str]) -> None:
    partitions: dict[str, Any] = dict.fromkeys(("t", "t1", "t-2", "x"), 1)
    world = ConsumerWorld(**partitions)
    check(pattern)
    resolved = resolve([pattern], world.image, lambda _: True, 7)[pattern]
    assert (resolved.topics, resolved.version, resolved.timestamp_ms) == (topics, world.image.offset, 7)


def test_catastrophic_patterns_are_fast() -> None:
    long: dict[str, Any] = {"a" * 200: 1}
    world = ConsumerWorld(**long)
    assert resolve(["(a|aa)+b"], world.image, lambda _: True, 0)["(a|aa)+b"].topics == frozenset()


def test_an_invalid_pattern_in_the_log_matches_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = ConsumerWorld()
    assert resolve(["("], world.image, lambda _: True, 0)["("].topics == frozenset()
    assert "missing closing )" in caplog.text


# In groups


def test_topics_of_a_pattern_are_assigned_on_the_next_heartbeat() -> None:
    world = ConsumerWorld(t1=1, t2=2, x=1)
    assert world.epoch_and_assignment(world.beat("a", 0, subscribed_topic_regex=PATTERN)) == (1, {})
    world.pass_ms(0)
    assert world.consumers.group_epoch == 2
    assert world.consumers.resolved[PATTERN].topics == {"t1", "t2"}
    assert world.epoch_and_assignment(world.beat("a", 1)) == (2, {"t1": [0], "t2": [0, 1]})
    assert world.consumers.is_subscribed_to("t1")
    assert not world.consumers.is_subscribed_to("x")


def test_a_pattern_in_use_is_already_resolved() -> None:
    world = ConsumerWorld(t1=1, t2=1)
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.pass_ms(0)
    world.beat("a", 1)
    world.beat("b", 0, subscribed_topic_regex=PATTERN)
    assert world.consumers.group_epoch == 3
    world.settle("a", "b")
    assert sorted([*world.owned("a"), *world.owned("b")]) == ["t1", "t2"]


def test_names_and_a_pattern_are_combined() -> None:
    world = ConsumerWorld(t1=1, x=1)
    world.beat("a", 0, names=["x"], subscribed_topic_regex=PATTERN)
    world.pass_ms(0)
    assert world.epoch_and_assignment(world.beat("a", 1)) == (2, {"t1": [0], "x": [0]})


def test_new_topics_are_resolved_at_most_every_ten_seconds() -> None:
    world = ConsumerWorld(t1=1)
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.pass_ms(0)
    world.beat("a", 1)
    world.topic("t2", 1)
    world.beat("a", 2)
    world.pass_ms(0)
    assert world.consumers.group_epoch == 2
    world.pass_ms(MIN_REFRESH_INTERVAL_MS + 1)
    world.beat("a", 2)
    world.pass_ms(0)
    assert world.consumers.resolved[PATTERN].topics == {"t1", "t2"}
    assert world.epoch_and_assignment(world.beat("a", 2)) == (3, {"t1": [0], "t2": [0]})


def test_patterns_are_refreshed_periodically() -> None:
    world = ConsumerWorld({"group.consumer.session.timeout.ms": "60000"}, t1=1)
    world.hidden = {"t1"}
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.pass_ms(0)
    assert world.consumers.resolved[PATTERN].topics == frozenset()
    # Granting access to the topic changed no topic.
    world.hidden = set()
    for _ in range(11):
        world.pass_ms(55_000)
        world.beat("a", world.consumers.members["a"].member_epoch)
    world.pass_ms(0)
    assert world.consumers.resolved[PATTERN].topics == {"t1"}


def test_a_pattern_is_removed_with_its_last_member() -> None:
    world = ConsumerWorld(t1=1)
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.beat("b", 0, subscribed_topic_regex=PATTERN)
    world.pass_ms(0)
    world.beat("a", -1)
    assert world.consumers.subscribed == {"t1": (0, 1)}
    world.beat("b", -1)
    assert (world.consumers.subscribed, world.consumers.resolved, world.consumers.regexes) == ({}, {}, {})
    check_invariants(world.consumers)


def test_a_member_may_change_and_remove_its_pattern() -> None:
    world = ConsumerWorld(t1=1, x=1)
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.pass_ms(0)
    world.beat("a", 1)
    world.pass_ms(MIN_REFRESH_INTERVAL_MS + 1)
    world.beat("a", 2, subscribed_topic_regex="x")
    world.pass_ms(0)
    assert set(world.consumers.resolved) == {"x"}
    world.settle("a")
    assert world.owned("a") == {"x": [0]}
    epoch = world.consumers.members["a"].member_epoch
    world.beat("a", epoch, subscribed_topic_regex="", names=["t1"])
    world.settle("a")
    assert world.owned("a") == {"t1": [0]}
    assert world.consumers.resolved == {}


def test_an_invalid_pattern_changes_nothing() -> None:
    world = ConsumerWorld()
    assert world.error("a", 0, subscribed_topic_regex="(") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.store.entries == []


def test_resolution_is_ignored_if_the_group_was_removed() -> None:
    world = ConsumerWorld(t1=1)
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.beat("a", -1)
    written = len(world.store.entries)
    world.pass_ms(0)
    assert len(world.store.entries) == written


def test_topics_that_came_and_went_at_once_do_not_hide_a_new_one() -> None:
    world = ConsumerWorld(t1=1)
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.pass_ms(0)
    world.beat("a", 1)
    delta = Delta(world.image)
    for number in range(20):
        topic_id = Uuid.from_words(50, number)
        delta.replay(TopicRecord(name=f"brief-{number}", topic_id=topic_id))
        delta.replay(RemoveTopicRecord(topic_id=topic_id))
    delta.replay(TopicRecord(name="t2", topic_id=Uuid.from_words(51, 1)))
    delta.replay(
        PartitionRecord(
            topic_id=Uuid.from_words(51, 1),
            partition_id=0,
            replicas=[1],
            isr=[1],
            removing_replicas=[],
            adding_replicas=[],
            leader=1,
        )
    )
    world._committed(delta)
    world.pass_ms(MIN_REFRESH_INTERVAL_MS + 1)
    world.beat("a", 2)
    world.pass_ms(0)
    assert world.consumers.resolved[PATTERN].topics == {"t1", "t2"}


@pytest.mark.parametrize("others", [0, 1])
def test_removing_a_pattern_costs_one_epoch(others: int) -> None:
    """A wrong subscription would be noticed by the next check of the topics, and cost a second rebalance."""
    world = ConsumerWorld(t1=1, x=1, y=1)
    members = ["a", "b"][: 1 + others]
    for member_id in members:
        world.beat(member_id, 0, names=["x"], subscribed_topic_regex=PATTERN)
        world.pass_ms(0)
    world.settle(*members)
    epoch = world.consumers.group_epoch
    world.beat("a", epoch, subscribed_topic_regex="", names=["y"])
    world.settle(*members)
    assert world.consumers.group_epoch == epoch + 1
    # Another leader makes the group check its topics again.
    delta = Delta(world.image)
    delta.replay(PartitionChangeRecord(topic_id=world.image.topic_ids["y"], partition_id=0, leader=-1))
    world._committed(delta)
    world.settle(*members)
    assert world.consumers.group_epoch == epoch + 1


def test_a_pattern_that_is_no_longer_used_does_not_hide_others() -> None:
    world = ConsumerWorld(t1=1, x=1)
    world.beat("a", 0, subscribed_topic_regex=PATTERN)
    world.pass_ms(MIN_REFRESH_INTERVAL_MS + 1)
    world.beat("b", 0, subscribed_topic_regex="x")
    world.beat("a", -1)
    world.pass_ms(0)
    assert {pattern: regex.topics for pattern, regex in world.consumers.resolved.items()} == {"x": {"x"}}
