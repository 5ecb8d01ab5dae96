"""Controllers that are cut off from the others while topics are created, in both directions and in one.

A leader without its voters resigns and another is elected (KIP-595, KAFKA-15489); a follower that comes back asks for
pre-votes and disturbs nobody (KIP-996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tests.verify.quorum.cuts import Cuts
from tests.verify.quorum.metadata_files import Batch, end_of_log, quorum_state, read_log
from tests.verify.quorum.mixed_cluster import (
    APACHE,
    OURS,
    VERSIONS,
    Member,
    MixedCluster,
    Status,
    mixed_cluster,
    wait_for,
)
from tests.verify.quorum.topic_stream import TopicStream

KINDS = {
    VERSIONS[0]: {101: APACHE, 102: APACHE, 103: OURS},
    VERSIONS[1]: {101: APACHE, 102: OURS, 103: OURS},
}
BROKERS = {1: APACHE, 2: OURS}
TOPICS_A_STEP = 4
# More than two fetch timeouts of idle voters: a follower that missed its leader has asked for votes by then.
TOPICS_OF_A_CUT = 40


@dataclass
class Story:
    cluster: MixedCluster
    stream: TopicStream
    # (kind of the leader that was cut off, its epoch, the next one's)
    leaders: list[tuple[str, int, int]] = field(default_factory=list)
    # (kind of the follower that was cut off, the epochs before and after, the leaders before and after)
    followers: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    # (kind of the leader that no request reached, its epoch, the next one's)
    silenced: list[tuple[str, int, int]] = field(default_factory=list)
    # (kind of the follower that did not reach its leader, the epochs before and after, the leaders before and after)
    blocked: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    high_watermark: int = 0

    def logs(self) -> dict[str, list[Batch]]:
        members = self.cluster.members.values()
        return {member.name: read_log(member.metadata, self.high_watermark) for member in members}


def _cut_leader(story: Story, cuts: Cuts, kind: str) -> None:
    cluster = story.cluster
    leader = cluster.lead_by(kind)
    before = cluster.leader()
    story.stream.await_more(TOPICS_A_STEP)
    cuts.isolate(leader.number)
    after = cluster.leader(above=before.epoch)
    # It has noticed by itself, without a word from the others.
    wait_for(f"{leader.name} resigns", lambda: cluster.status(leader) is None)
    story.leaders.append((kind, before.epoch, after.epoch))
    story.stream.await_more(TOPICS_A_STEP)
    cuts.heal()
    cluster.await_following(leader.number)


def _silence_leader(story: Story, cuts: Cuts, kind: str) -> None:
    """One way: its announcements arrive, and are not believed for ever."""
    cluster = story.cluster
    leader = cluster.lead_by(kind)
    before = cluster.leader()
    story.stream.await_more(TOPICS_A_STEP)
    cuts.silence(leader.number)
    after = cluster.leader(above=before.epoch)
    # It reaches the new leader, and follows it while the cut lasts.
    cluster.await_following(leader.number)
    story.silenced.append((kind, before.epoch, after.epoch))
    story.stream.await_more(TOPICS_A_STEP)
    cuts.heal()


def _block_follower(story: Story, cuts: Cuts, kind: str) -> None:
    """One way: it hears its leader's announcements, but no fetch of it arrives."""
    leader, follower = _leader_and_follower(story, kind)
    cuts.block(follower.number, leader.leader_id)
    story.stream.await_more(TOPICS_OF_A_CUT)
    after = story.cluster.leader()
    story.blocked.append((kind, leader.epoch, after.epoch, leader.leader_id, after.leader_id))
    cuts.heal()
    story.cluster.await_following(follower.number)


def _leader_and_follower(story: Story, kind: str) -> tuple[Status, Member]:
    """The leader, and a follower of this kind."""
    cluster = story.cluster
    leader = cluster.leader()
    if not any(member.kind == kind and member.number != leader.leader_id for member in cluster.controllers()):
        cluster.lead_by(OURS if kind == APACHE else APACHE)
        leader = cluster.leader()
    follower = next(
        member
        for member in cluster.controllers()
        if member.kind == kind and member.number != leader.leader_id
    )
    return leader, follower


def _cut_follower(story: Story, cuts: Cuts, kind: str) -> None:
    cluster = story.cluster
    leader, follower = _leader_and_follower(story, kind)
    cuts.isolate(follower.number)
    # A voter that no longer hears of its leader stores nothing: it asks before it begins an epoch.
    story.stream.await_more(TOPICS_OF_A_CUT)
    assert end_of_log(follower.metadata) < cluster.leader().high_watermark - TOPICS_OF_A_CUT
    assert quorum_state(follower.metadata)["leaderEpoch"] == leader.epoch
    cuts.heal()
    cluster.await_following(follower.number)
    after = cluster.leader()
    story.followers.append((kind, leader.epoch, after.epoch, leader.leader_id, after.leader_id))


@pytest.fixture(scope="module", params=VERSIONS)
def story(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    version = request.param
    home = tmp_path_factory.mktemp("quorum_cuts") / "cluster"
    nodes = {**KINDS[version], **BROKERS}
    found: list[Cuts] = []

    def prepare(cluster: MixedCluster) -> None:
        found.append(Cuts(cluster))
        found[0].start()

    try:
        with mixed_cluster(oracle, version, home, nodes, is_dynamic=True, prepare=prepare) as cluster:
            (cuts,) = found
            story = Story(cluster, TopicStream(cluster.brokers()))
            story.stream.start()
            try:
                for kind in (APACHE, OURS):
                    _cut_leader(story, cuts, kind)
                    _cut_follower(story, cuts, kind)
                    _silence_leader(story, cuts, kind)
                    _block_follower(story, cuts, kind)
            finally:
                story.stream.stop()
            story.high_watermark = cluster.leader().high_watermark
            for member in cluster.members.values():
                wait_for(f"{member.name} has it all", partial(_has_log, member, story.high_watermark))
            yield story
    finally:
        for cuts in found:
            cuts.stop()


def _has_log(member: Member, end: int) -> bool:
    return end_of_log(member.metadata) >= end


def test_a_leader_that_is_cut_off_resigns_and_another_leads(story: Story) -> None:
    assert [kind for kind, *_ in story.leaders] == [APACHE, OURS]
    for _, before, after in story.leaders:
        assert after > before


def test_a_follower_that_is_cut_off_disturbs_nobody(story: Story) -> None:
    assert [kind for kind, *_ in story.followers] == [APACHE, OURS]
    for kind, *epochs_and_leaders in story.followers:
        before, after, leader, leader_after = epochs_and_leaders
        assert (before, leader) == (after, leader_after), f"a follower of {kind} forced an election"


def test_a_leader_that_no_request_reaches_is_replaced_and_follows(story: Story) -> None:
    """One-way: what it sends itself arrives."""
    assert [kind for kind, *_ in story.silenced] == [APACHE, OURS]
    for _, before, after in story.silenced:
        assert after > before


def test_a_follower_that_does_not_reach_its_leader_disturbs_nobody(story: Story) -> None:
    """One-way: it hears of its leader, and the others refuse it their pre-votes."""
    assert [kind for kind, *_ in story.blocked] == [APACHE, OURS]
    for kind, *epochs_and_leaders in story.blocked:
        before, after, leader, leader_after = epochs_and_leaders
        assert (before, leader) == (after, leader_after), f"a follower of {kind} forced an election"


def test_nothing_answered_is_lost(story: Story) -> None:
    assert story.stream.strange == []
    for broker in (1, 2):
        member = story.cluster.members[broker]
        listed = story.cluster.tool_of(APACHE, "topics", *member.option, "--list").splitlines()
        assert set(story.stream.answered) <= set(listed)


def test_the_logs_are_equal_byte_for_byte(story: Story) -> None:
    logs = story.logs()
    longest = max(logs.values(), key=len)
    reference = {batch.base_offset: batch.content for batch in longest}
    for name, log in logs.items():
        assert log[-1].next_offset == longest[-1].next_offset, f"{name} ends early"
        different = [batch.base_offset for batch in log if reference.get(batch.base_offset) != batch.content]
        assert not different, f"{name} differs at the offsets {different[:5]}"


def test_our_nodes_have_no_errors_in_their_logs(story: Story) -> None:
    assert story.cluster.faults() == []
