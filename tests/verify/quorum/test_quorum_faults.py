"""One quorum of Apache Kafka's controllers and ours, whose leaders are killed and paused while topics are created.

Each kind leads, is killed (SIGKILL) and paused (SIGSTOP) as a leader.  A cluster lives through all of it once; the
checks look at what has come of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tests.verify.quorum.metadata_files import (
    Batch,
    end_of_log,
    epoch_starts,
    leaders,
    quorum_state,
    read_log,
    snapshots,
)
from tests.verify.quorum.mixed_cluster import (
    APACHE,
    MAX_ROUNDS,
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
    "two-of-theirs": {101: APACHE, 102: APACHE, 103: OURS},
    "two-of-ours": {101: APACHE, 102: OURS, 103: OURS},
}
BROKERS = {1: APACHE, 2: OURS}
FAULTS = ("kill", "pause")
TOPICS_A_ROUND = 4
# Apache Kafka cleans its log once a minute.
SNAPSHOT_PATIENCE_S = 240


@dataclass
class Story:
    """A cluster and what was seen of it."""

    cluster: MixedCluster
    stream: TopicStream
    # The kinds that lead, one after the other, when nodes of the other kind install their snapshots.
    leading_at_installs: tuple[str, ...] = ()
    end: Status | None = None
    # (kind of the leader, node that installed its snapshot, name, bytes at the leader, bytes at the node)
    installed: list[tuple[str, str, str, bytes, bytes]] = field(default_factory=list)

    @property
    def high_watermark(self) -> int:
        assert self.end is not None
        return self.end.high_watermark

    def logs(self) -> dict[str, list[Batch]]:
        return {
            member.name: read_log(member.metadata, self.high_watermark)
            for member in self.cluster.members.values()
        }


def _has_log(member: Member, end: int) -> bool:
    return end_of_log(member.metadata) >= end


def _trouble(story: Story) -> None:
    """Until each kind has led, been killed and been paused."""
    cluster = story.cluster
    open_faults = {(kind, fault) for kind in (APACHE, OURS) for fault in FAULTS}
    for turn in range(MAX_ROUNDS):
        status = cluster.leader()
        number, kind = status.leader_id, cluster.kind_of(status.leader_id)
        fault = next((each for each in FAULTS if (kind, each) in open_faults), FAULTS[turn % 2])
        story.stream.await_more(TOPICS_A_ROUND)
        (cluster.kill if fault == "kill" else cluster.pause)(number)
        story.cluster.led.append((status.epoch, number, fault))
        open_faults.discard((kind, fault))
        cluster.leader(above=status.epoch)
        story.stream.await_more(TOPICS_A_ROUND)
        if fault == "kill":
            cluster.start(number)
        else:
            cluster.resume(number)
        cluster.await_following(number)
        if not open_faults:
            return
    pytest.fail(f"after {MAX_ROUNDS} elections: {open_faults} are left; {story.cluster.led}")


def _needs_snapshot(cluster: MixedCluster, leader: Member) -> bool:
    """Whether the leader's log begins after its first record: a new node needs a snapshot."""
    status = cluster.status(leader)
    if status is None:
        return False
    partition = {
        "partition": 0,
        "current_leader_epoch": status.epoch,
        "fetch_offset": 0,
        "last_fetched_epoch": 0,
        "partition_max_bytes": 1,
    }
    row = {"topic_id": b"\0" * 15 + b"\1", "partitions": [partition]}
    answer = cluster.ask(leader, "Fetch", 17, max_wait_ms=0, min_bytes=0, topics=[row])
    if answer is None or not answer["responses"]:
        return False
    return bool(answer["responses"][0]["partitions"][0]["snapshot_id"]["epoch"] >= 0)


def _install(story: Story, leading: str) -> None:
    """A leader of one kind, and a node of the other kind without a log: its disk was emptied, or it is new."""
    cluster = story.cluster
    other = OURS if leading == APACHE else APACHE
    leader = cluster.lead_by(leading)
    wait_for(
        "a log that begins with a snapshot", lambda: _needs_snapshot(cluster, leader), SNAPSHOT_PATIENCE_S
    )
    voters = cluster.controllers()
    if cluster.is_dynamic:
        node = cluster.add(11 if other == APACHE else 12, other)
        cluster.configure(node, voters)
    else:
        node = next(member for member in voters if member.kind == other)
        cluster.stop(node.number)
        cluster.empty(node.number)
    cluster.format(node, voters)
    before = {name: path.read_bytes() for name, path in snapshots(leader.metadata).items()}
    cluster.start(node.number)

    def look() -> tuple[str, bytes] | None:
        before.update({name: path.read_bytes() for name, path in snapshots(leader.metadata).items()})
        for name, path in snapshots(node.metadata).items():
            if name in before:
                return name, path.read_bytes()
        return None

    name, content = wait_for(f"{node.name} has a snapshot of {leader.name}", look)
    story.installed.append((leading, node.name, name, before[name], content))
    end = cluster.leader().high_watermark
    wait_for(f"{node.name} follows", lambda: end_of_log(node.metadata) >= end)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            (version, kinds, is_dynamic), id=f"{version}-{kinds}-{'dynamic' if is_dynamic else 'static'}"
        )
        for version in VERSIONS
        for kinds in KINDS
        for is_dynamic in (False, True)
    ],
)
def story(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    version, kinds, is_dynamic = request.param
    home = tmp_path_factory.mktemp("quorum_faults") / "cluster"
    nodes = {**KINDS[kinds], **BROKERS}
    with mixed_cluster(oracle, version, home, nodes, is_dynamic=is_dynamic) as cluster:
        # One cluster with static voters and one with dynamic ones: it takes Apache Kafka a minute each time.
        has_installs = (kinds == "two-of-theirs") != is_dynamic
        story = Story(cluster, TopicStream(cluster.brokers()), (OURS, APACHE) if has_installs else ())
        story.stream.start()
        try:
            _trouble(story)
            for leading in story.leading_at_installs:
                _install(story, leading)
        finally:
            story.stream.stop()
        story.end = cluster.leader()
        end = story.end.high_watermark
        for member in cluster.members.values():
            wait_for(f"{member.name} has it all", partial(_has_log, member, end))
        yield story


def test_each_kind_has_led_and_fallen(story: Story) -> None:
    fallen = {(story.cluster.kind_of(number), fault) for _, number, fault in story.cluster.led}
    assert fallen >= {(kind, fault) for kind in (APACHE, OURS) for fault in FAULTS}


def test_nothing_answered_is_lost(story: Story) -> None:
    """Apache Kafka's tool at its own broker, and at ours."""
    assert story.stream.strange == []
    assert len(story.stream.answered) == len(set(story.stream.answered))
    for broker in (1, 2):
        listed = story.cluster.tool_of(
            APACHE, "topics", *story.cluster.members[broker].option, "--list"
        ).splitlines()
        assert set(story.stream.answered) <= set(listed)
        assert len(listed) == len(set(listed))


def test_the_logs_are_equal_byte_for_byte(story: Story) -> None:
    logs = story.logs()
    reference = {batch.base_offset: batch.content for batch in logs["controller-101"]}
    longest = max(logs.values(), key=len)
    merged = {**{batch.base_offset: batch.content for batch in longest}, **reference}
    for name, log in logs.items():
        assert log, f"{name} has no log"
        assert log[-1].next_offset == longest[-1].next_offset, f"{name} ends early"
        different = [batch.base_offset for batch in log if merged.get(batch.base_offset) != batch.content]
        assert not different, f"{name} differs at the offsets {different[:5]}"


def test_the_leaders_of_the_log_are_those_that_were_seen(story: Story) -> None:
    """Each leader announced itself in its epoch with the votes of a majority."""
    logs = story.logs()
    longest = max(logs.values(), key=len)
    recorded = leaders(longest)
    for epoch, number, _ in story.cluster.led:
        if epoch in recorded:
            assert recorded[epoch].leader_id == number
    for message in recorded.values():
        voters = {voter.voter_id for voter in message.voters}
        granting = {voter.voter_id for voter in message.granting_voters}
        assert voters == {101, 102, 103}
        assert message.leader_id in granting <= voters
        assert len(granting) >= 2
    assert story.end is not None
    assert recorded[story.end.epoch].leader_id == story.end.leader_id


def test_apache_kafkas_log_names_the_same_leaders(story: Story) -> None:
    """Every epoch in which one of its controllers led or followed has the leader of the metadata log."""
    recorded = leaders(max(story.logs().values(), key=len))
    seen = 0
    for member in story.cluster.controllers():
        if member.kind != APACHE:
            continue
        text = member.log.read_text("utf-8")
        for epoch, leader in re.findall(
            r"Completed transition to FollowerState\([^)]*?epoch=(\d+), leader=(\d+)", text
        ):
            if int(epoch) in recorded:
                assert recorded[int(epoch)].leader_id == int(leader), (member.name, epoch)
                seen += 1
        for epoch in re.findall(r"Completed transition to Leader\(localVoterNode=.*?, epoch=(\d+),", text):
            if int(epoch) in recorded:
                assert recorded[int(epoch)].leader_id == member.number, (member.name, epoch)
                seen += 1
    assert seen


def test_epochs_votes_and_leaders_are_stored(story: Story) -> None:
    assert story.end is not None
    for member in story.cluster.controllers():
        state = quorum_state(member.metadata)
        assert (state["leaderEpoch"], state["leaderId"]) == (story.end.epoch, story.end.leader_id), (
            member.name
        )
        assert state["data_version"] == int(story.cluster.is_dynamic)
    starts = [epoch_starts(member.metadata) for member in story.cluster.controllers()]
    for epoch in set.intersection(*(set(each) for each in starts)):
        # A node whose log begins with a snapshot knows the first epoch from its first record.
        if all(epoch != min(each) for each in starts):
            assert len({each[epoch] for each in starts}) == 1, (epoch, starts)
    assert {max(each) for each in starts} == {story.end.epoch}


@pytest.mark.parametrize("number", [101, 103])
def test_apache_kafkas_tool_describes_the_quorum(story: Story, number: int) -> None:
    cluster, member = story.cluster, story.cluster.members[number]
    described = cluster.tool_of(APACHE, "metadata-quorum", *member.option, "describe", "--status")
    now = cluster.leader()
    assert re.search(rf"LeaderId:\s+{now.leader_id}\b", described), described
    assert re.search(rf"LeaderEpoch:\s+{now.epoch}\b", described), described
    rows = cluster.tool_of(
        APACHE, "metadata-quorum", *member.option, "describe", "--replication"
    ).splitlines()
    nodes = {int(row.split()[0]): row.split()[-1] for row in rows[1:] if row.strip()}
    assert nodes[now.leader_id] == "Leader"
    assert [nodes[voter] for voter in (101, 102, 103) if voter != now.leader_id] == ["Follower"] * 2


def test_each_kind_installs_snapshots_of_the_other(story: Story) -> None:
    assert tuple(leading for leading, *_ in story.installed) == story.leading_at_installs
    for leading, node, name, sent, received in story.installed:
        assert sent == received, f"{node} has another {name} than its leader ({leading})"


@pytest.mark.parametrize("kind", [APACHE, OURS])
def test_each_kind_reads_snapshots_of_the_other(story: Story, kind: str) -> None:
    """Both tools print the same records for the newest snapshot of each kind's controller."""
    member = next(each for each in story.cluster.controllers() if each.kind == kind)
    path = list(snapshots(member.metadata).values())[-1]
    printed = [
        _records(story.cluster.tool_of(tool, "dump-log", "--cluster-metadata-decoder", "--files", str(path)))
        for tool in (APACHE, OURS)
    ]
    assert printed[0] == printed[1]
    assert printed[0]


def _records(dump: str) -> list[str]:
    assert "isvalid: false" not in dump
    return [line for line in dump.splitlines() if line.startswith(("baseOffset", "| "))]


def test_our_nodes_have_no_errors_in_their_logs(story: Story) -> None:
    assert story.cluster.faults() == []
