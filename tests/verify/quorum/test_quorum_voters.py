"""KIP-853 with both kinds: a quorum of three is replaced voter by voter while topics are created.

Apache Kafka's controllers by ours, and ours by its; the old kind's tool adds voters and the new kind's removes them.
Half-way, while both kinds vote, a voter moves to another port and reports it to a leader of the other kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from barnabas.base.ids import Uuid
from barnabas.config.values.properties import loads
from tests.verify.quorum.metadata_files import Batch, end_of_log, leaders, read_log
from tests.verify.quorum.mixed_cluster import (
    APACHE,
    OURS,
    VERSIONS,
    Member,
    MixedCluster,
    mixed_cluster,
    wait_for,
)
from tests.verify.quorum.topic_stream import TopicStream

OLD = (101, 102, 103)
NEW = (111, 112, 113)
BROKERS = {1: APACHE, 2: OURS}
TOPICS_A_STEP = 3
MOVED_BY = 30


@dataclass
class Story:
    cluster: MixedCluster
    stream: TopicStream
    kinds: tuple[str, str]
    # (whose tool, whose leader, what was done)
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    # (kind of the leader, voter, its new port, the port that the leader names)
    moved: list[tuple[str, int, int, int]] = field(default_factory=list)
    high_watermark: int = 0

    def logs(self) -> dict[str, list[Batch]]:
        return {
            member.name: read_log(member.metadata, self.high_watermark)
            for member in self.cluster.members.values()
            if member.pid is not None
        }


def _directory_id(member: Member) -> Uuid:
    properties = loads((member.home / "data" / "meta.properties").read_bytes())
    return Uuid.parse(properties["directory.id"])


def _quorum_tool(story: Story, kind: str, *args: str) -> str:
    cluster = story.cluster
    leading = cluster.kind_of(cluster.leader().leader_id)
    printed = cluster.tool_of(kind, "metadata-quorum", *cluster.members[1].option, *args)
    story.changes.append((kind, leading, next(arg for arg in args if arg.endswith("-controller"))))
    return printed


def _add(story: Story, number: int, tool: str) -> None:
    cluster = story.cluster
    member = cluster.members[number]
    cluster.configure(member, cluster.controllers())
    cluster.format(member, [])
    cluster.start(number)
    end = cluster.leader().high_watermark
    wait_for(f"{number} observes", lambda: cluster.leader().observers.get(number, -1) >= end)
    printed = _quorum_tool(story, tool, "--command-config", str(member.properties), "add-controller")
    assert f"Added controller {number} with directory id {_directory_id(member)}" in printed
    wait_for(f"{number} votes", lambda: number in cluster.leader().voters)


def _remove(story: Story, number: int, tool: str) -> None:
    cluster = story.cluster
    directory = str(_directory_id(cluster.members[number]))
    options = ("--controller-id", str(number), "--controller-directory-id", directory)
    printed = _quorum_tool(story, tool, "remove-controller", *options)
    assert f"KRaft controller {number} with directory id {directory}" in printed
    wait_for(f"{number} votes no more", lambda: number not in cluster.leader().voters)
    cluster.stop(number)


def _move(story: Story, leading: str) -> None:
    """A voter of the other kind comes back on another port."""
    cluster = story.cluster
    cluster.lead_by(leading)
    voters = cluster.leader().voters
    number = next(each for each in voters if cluster.kind_of(each) != leading)
    member = cluster.members[number]
    cluster.stop(number)
    member.port += MOVED_BY
    cluster.configure(member, cluster.controllers())
    cluster.start(number)
    port = wait_for(f"the leader knows where {number} is", partial(_moved_port, cluster, member))
    story.moved.append((cluster.kind_of(cluster.leader().leader_id), number, member.port, port))
    cluster.await_following(number)


def _moved_port(cluster: MixedCluster, member: Member) -> int | None:
    leader = cluster.members[cluster.leader().leader_id]
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = cluster.ask(leader, "DescribeQuorum", 2, topics=topics)
    nodes = {} if answer is None else {each["node_id"]: each["listeners"] for each in answer["nodes"]}
    ports = [listener["port"] for listener in nodes.get(member.number, ())]
    return int(ports[0]) if ports and ports[0] == member.port else None


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((version, kinds), id=f"{version}-{kinds[0]}-by-{kinds[1]}")
        for version in VERSIONS
        for kinds in ((APACHE, OURS), (OURS, APACHE))
    ],
)
def story(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    version, (old, new) = request.param
    home = tmp_path_factory.mktemp("quorum_voters") / "cluster"
    nodes = {**dict.fromkeys(OLD, old), **BROKERS}
    later = dict.fromkeys(NEW, new)
    with mixed_cluster(oracle, version, home, nodes, is_dynamic=True, later=later) as cluster:
        story = Story(cluster, TopicStream(cluster.brokers()), (old, new))
        story.stream.start()
        try:
            for number, (removed, added) in enumerate(zip(OLD, NEW, strict=True)):
                story.stream.await_more(TOPICS_A_STEP)
                if number == 1:
                    # Both kinds vote: each leads for the tool of the other.
                    cluster.lead_by(new)
                _add(story, added, old)
                story.stream.await_more(TOPICS_A_STEP)
                if number == 1:
                    cluster.lead_by(old)
                _remove(story, removed, new)
                if number == 1:
                    for leading in (new, old):
                        _move(story, leading)
            story.stream.await_more(TOPICS_A_STEP)
        finally:
            story.stream.stop()
        story.high_watermark = cluster.leader().high_watermark
        for member in cluster.members.values():
            if member.pid is not None:
                wait_for(f"{member.name} has it all", partial(_has_log, member, story.high_watermark))
        yield story


def _has_log(member: Member, end: int) -> bool:
    return end_of_log(member.metadata) >= end


def test_the_new_controllers_are_the_voters(story: Story) -> None:
    status = story.cluster.leader()
    assert set(status.voters) == set(NEW)
    assert story.cluster.kind_of(status.leader_id) == story.kinds[1]
    shown = story.cluster.tool_of(
        APACHE, "metadata-quorum", *story.cluster.members[1].option, "describe", "--replication"
    )
    nodes = {int(row.split()[0]): row.split()[-1] for row in shown.splitlines()[1:] if row.strip()}
    assert sorted(number for number, role in nodes.items() if role in ("Leader", "Follower")) == list(NEW)


def test_nothing_answered_is_lost(story: Story) -> None:
    assert story.stream.strange == []
    for broker in (1, 2):
        listed = story.cluster.tool_of(
            APACHE, "topics", *story.cluster.members[broker].option, "--list"
        ).splitlines()
        assert set(story.stream.answered) <= set(listed)


def test_the_logs_are_equal_byte_for_byte(story: Story) -> None:
    logs = story.logs()
    longest = max(logs.values(), key=len)
    reference = {batch.base_offset: batch.content for batch in longest}
    for name, log in logs.items():
        assert log[-1].next_offset == longest[-1].next_offset, f"{name} ends early"
        different = [batch.base_offset for batch in log if reference.get(batch.base_offset) != batch.content]
        assert not different, f"{name} differs at the offsets {different[:5]}"


def test_each_kind_has_changed_voters_by_the_tool_of_the_other(story: Story) -> None:
    old, new = story.kinds
    assert (old, new, "add-controller") in story.changes
    assert (new, old, "remove-controller") in story.changes
    assert len(story.changes) == 2 * len(NEW)


def test_both_kinds_have_led(story: Story) -> None:
    longest = max(story.logs().values(), key=len)
    led = {story.cluster.kind_of(message.leader_id) for message in leaders(longest).values()}
    assert led >= {story.kinds[1]}
    assert {leading for leading, *_ in story.moved} == {APACHE, OURS}


def test_a_voter_that_moved_is_known_to_the_other_kind(story: Story) -> None:
    assert len(story.moved) == 2
    for _, _, port, known in story.moved:
        assert port == known


def test_our_nodes_have_no_errors_in_their_logs(story: Story) -> None:
    assert story.cluster.faults() == []
