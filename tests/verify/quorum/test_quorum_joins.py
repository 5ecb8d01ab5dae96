"""AddRaftVoter 1 with both kinds: a controller joins the voters of the other kind's leaders by itself.

`controller.quorum.auto.join.enable`, of Apache Kafka 4.2 and later: also after its disk was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from barnabas.config.values.properties import loads
from tests.verify.quorum.metadata_files import end_of_log, read_log
from tests.verify.quorum.mixed_cluster import (
    APACHE,
    OURS,
    SETTINGS,
    VERSIONS,
    Member,
    MixedCluster,
    mixed_cluster,
    wait_for,
)

VOTERS = (101, 102)
JOINING = 111
AUTO_JOIN = {**SETTINGS, "controller.quorum.auto.join.enable": "true"}


class Story(NamedTuple):
    cluster: MixedCluster
    joining: Member
    # Its directory ids, in the order in which they became voters.
    joined: list[str]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((APACHE, OURS), id="theirs-joins-ours"),
        pytest.param((OURS, APACHE), id="ours-joins-theirs"),
    ],
)
def story(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    joining, leading = request.param
    home = tmp_path_factory.mktemp("quorum_joins") / "cluster"
    nodes = {**dict.fromkeys(VOTERS, leading), 1: OURS}
    with mixed_cluster(
        oracle,
        VERSIONS[1],
        home,
        nodes,
        is_dynamic=True,
        settings=AUTO_JOIN,
        later={JOINING: joining},
    ) as cluster:
        member = cluster.members[JOINING]
        story = Story(cluster, member, [_join(cluster, member)])
        cluster.kill(JOINING)
        cluster.empty(JOINING)
        story.joined.append(_join(cluster, member))
        end = cluster.leader().high_watermark
        for each in cluster.members.values():
            wait_for(f"{each.name} has it all", partial(_has_log, each, end))
        yield story


def _has_log(member: Member, end: int) -> bool:
    return end_of_log(member.metadata) >= end


def _join(cluster: MixedCluster, member: Member) -> str:
    """Formats and starts it; waits until it is a voter, and returns its directory id."""
    cluster.configure(member, cluster.controllers())
    cluster.format(member, [])
    cluster.start(member.number)
    directory_id = loads((member.home / "data" / "meta.properties").read_bytes())["directory.id"]
    wait_for(
        f"{member.number} votes with {directory_id}",
        lambda: _voters(cluster).get(member.number) == directory_id,
    )
    return directory_id


def _voters(cluster: MixedCluster) -> dict[int, str]:
    leader = cluster.members[cluster.leader().leader_id]
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = cluster.ask(leader, "DescribeQuorum", 2, topics=topics)
    if answer is None or answer["error_code"] or not answer["topics"]:
        return {}
    voters = answer["topics"][0]["partitions"][0]["current_voters"]
    return {voter["replica_id"]: str(voter["replica_directory_id"]) for voter in voters}


def test_it_has_joined_with_each_of_its_disks(story: Story) -> None:
    first, second = story.joined
    assert first != second
    voters = _voters(story.cluster)
    assert set(voters) == {*VOTERS, JOINING}
    assert voters[JOINING] == second


def test_the_new_voter_counts(story: Story) -> None:
    """Two of three voters go on, and it is one of them."""
    cluster = story.cluster
    before = cluster.leader()
    killed = next(number for number in VOTERS if number != before.leader_id)
    cluster.kill(killed)
    cluster.leader()
    wait_for("more is committed", lambda: cluster.leader().high_watermark > before.high_watermark)
    cluster.start(killed)
    cluster.await_following(killed)


def test_the_logs_are_equal_byte_for_byte(story: Story) -> None:
    members = story.cluster.members.values()
    end = min(end_of_log(member.metadata) for member in members)
    logs = [read_log(member.metadata, end) for member in members]
    reference = {batch.base_offset: batch.content for batch in max(logs, key=len)}
    for log in logs:
        assert all(reference.get(batch.base_offset) == batch.content for batch in log)


def test_our_nodes_have_no_errors_in_their_logs(story: Story) -> None:
    assert story.cluster.faults() == []
