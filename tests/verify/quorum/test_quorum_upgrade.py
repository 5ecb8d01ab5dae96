"""A static quorum of both kinds becomes a dynamic one: kraft.version 0 to 1, while topics are created (KIP-853).

The leader must know every voter's directory and endpoints, which the others report to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import batches
from barnabas.config.values.properties import loads
from barnabas.protocol.records.control import KRaftVersionRecord, VotersRecord
from tests.verify.quorum.metadata_files import end_of_log, quorum_state, read_log
from tests.verify.quorum.mixed_cluster import APACHE, OURS, VERSIONS, MixedCluster, mixed_cluster, wait_for
from tests.verify.quorum.topic_stream import TopicStream

KINDS = {101: APACHE, 102: OURS, 103: OURS}
BROKERS = {1: APACHE, 2: OURS}
TOPICS = 4


class Story(NamedTuple):
    cluster: MixedCluster
    leading: str
    high_watermark: int


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((version, leading), id=f"{version}-led-by-{leading}")
        for version in VERSIONS
        for leading in (APACHE, OURS)
    ],
)
def story(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    version, leading = request.param
    home = tmp_path_factory.mktemp("quorum_upgrade") / "cluster"
    with mixed_cluster(oracle, version, home, {**KINDS, **BROKERS}, is_dynamic=False) as cluster:
        stream = TopicStream(cluster.brokers())
        stream.start()
        try:
            stream.await_more(TOPICS)
            cluster.lead_by(leading)
            wait_for("the upgrade", lambda: _upgrade(cluster, APACHE if leading == OURS else OURS))
            stream.await_more(TOPICS)
        finally:
            stream.stop()
        end = cluster.leader().high_watermark
        for member in cluster.members.values():
            metadata = member.metadata
            wait_for(f"{member.name} has it all", partial(_has_log, metadata, end))
        yield Story(cluster, leading, end)


def _has_log(metadata: Path, end: int) -> bool:
    return end_of_log(metadata) >= end


def _upgrade(cluster: MixedCluster, tool: str) -> bool:
    """The leader refuses until it has heard from all voters."""
    option = cluster.members[1].option
    code, _ = cluster.try_tool(tool, "features", *option, "upgrade", "--feature", "kraft.version=1")
    return code == 0


def test_the_voters_are_in_the_log_with_their_directories(story: Story) -> None:
    member = story.cluster.members[101]
    messages = [
        read_quorum_message(record)
        for each in read_log(member.metadata, story.high_watermark)
        for batch in batches(each.content)
        if batch.is_control
        for record in batch.records()
    ]
    versions = [message.kraft_version for message in messages if isinstance(message, KRaftVersionRecord)]
    assert versions == [1]
    (voters,) = [message for message in messages if isinstance(message, VotersRecord)]
    expected = {}
    for controller in story.cluster.controllers():
        properties = loads((controller.home / "data" / "meta.properties").read_bytes())
        expected[controller.number] = (properties["directory.id"], controller.port)
    found = {
        voter.voter_id: (str(voter.voter_directory_id), voter.endpoints[0].port) for voter in voters.voters
    }
    assert found == expected


def test_the_logs_are_equal_byte_for_byte(story: Story) -> None:
    logs = [read_log(member.metadata, story.high_watermark) for member in story.cluster.members.values()]
    longest = max(logs, key=len)
    reference = {batch.base_offset: batch.content for batch in longest}
    for log in logs:
        assert log[-1].next_offset == longest[-1].next_offset
        assert all(reference.get(batch.base_offset) == batch.content for batch in log)


def test_the_next_election_is_stored_with_directories(story: Story) -> None:
    """quorum-state changes its form with the first change after the upgrade."""
    cluster = story.cluster
    status = cluster.leader()
    cluster.kill(status.leader_id)
    cluster.leader(above=status.epoch)
    cluster.start(status.leader_id)
    cluster.await_following(status.leader_id)
    now = cluster.leader()

    def look() -> bool:
        states = [quorum_state(member.metadata) for member in cluster.controllers()]
        return all(state["data_version"] == 1 and state["leaderEpoch"] == now.epoch for state in states)

    wait_for("every controller stores its state in the newer form", look)


def test_our_nodes_have_no_errors_in_their_logs(story: Story) -> None:
    assert story.cluster.faults() == []
