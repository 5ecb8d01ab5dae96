"""Classic groups go on where they were when Apache Kafka takes over our folder, and when we take over its.

Each life of the folder finds the group that the one before left, serves its members as if nothing had
happened, changes it, and ends, ours by kill -9.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.verify.answers.classic_scenarios import beat, joining, syncing
from tests.verify.answers.classic_talk import Member, Scene
from tests.verify.nodes.broker_node import OurNode, apache_then_ours

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "log.flush.interval.messages": "1",
}
NAME = {"group_instance_id": "first"}
LIVES = 4


class Story:
    """What was seen of the groups, life by life."""

    def __init__(self) -> None:
        self.left: list[Any] = []
        self.found: list[Any] = []
        self.beats: list[int] = []
        self.assignments: list[str] = []
        self.faults: list[str] = []
        self.dumps: list[tuple[str, str]] = []


class Life:
    """One broker's time; the member's id outlives it."""

    def __init__(self, port: int, number: int) -> None:
        self.scene = Scene(port, "folders")
        self.number = number

    def _describe(self, member: Member, group: str) -> Any:
        answer = member.ask("described", "DescribeGroups", 5, groups=[group])
        self.scene.heard.clear()
        return answer["groups"]

    def live(self, story: Story, member_id: str) -> str:
        """Find the group, go on as its member, and replace oneself; the new id."""
        with self.scene as scene:
            group = scene.group("handed-over")
            one = scene.member("one")
            generation = self.number
            if member_id:
                story.found.append(self._describe(one, group))
                beat(one, "beat", group, member_id, generation, **NAME)
                story.beats.append(one.last["error_code"])
                one.ask("sync", "SyncGroup", 5, **syncing(group, member_id, generation, **NAME))
                story.assignments.append(one.last["assignment"])
                one.ask("rejoin", "JoinGroup", 9, **joining(group, member_id, **NAME))
                given = member_id
            else:
                one.ask("join", "JoinGroup", 9, **joining(group, **NAME))
                given = str(one.last["member_id"])
            generation = one.last["generation_id"]
            assert generation == self.number + 1, one.last
            assignments = {given: b"life %d" % self.number}
            one.ask(
                "assign", "SyncGroup", 5, **syncing(group, given, generation, assignments=assignments, **NAME)
            )
            assert not one.last["error_code"], one.last
            # A static member that comes back: another record, without a rebalance.
            one.ask("come back", "JoinGroup", 9, **joining(group, **NAME))
            assert one.last["generation_id"] == generation
            given = str(one.last["member_id"])
            story.left.append(self._describe(one, group))
            return given


@pytest.fixture(scope="module")
def story(
    oracle: Callable[..., Any], kafka_tool: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Story:
    story = Story()
    home = tmp_path_factory.mktemp("groups") / "node"
    with apache_then_ours(oracle, home, SETTINGS, "--cluster-id", CLUSTER_ID) as (apache, ours):
        member_id = ""
        for number in range(LIVES):
            is_ours = number % 2 == 1
            if is_ours:
                ours.start()
            elif number:
                apache.start()
            member_id = Life(ours.port, number).live(story, member_id)
            if is_ours:
                ours.kill()
                story.dumps.append(dumps(kafka_tool, ours, apache.data))
            else:
                apache.stop()
        story.faults = ours.faults()
    return story


def dumps(kafka_tool: Callable[..., Any], ours: OurNode, data: Path) -> tuple[str, str]:
    """Apache Kafka's reading of the log that holds the group, and ours."""
    segment = max(data.glob("__consumer_offsets-*/*.log"), key=lambda path: path.stat().st_size)
    arguments = ("--offsets-decoder", "--files", str(segment))
    theirs = kafka_tool("4.1.0", "dump-log", *arguments, cwd=data)
    own = subprocess.run(
        [sys.executable, "-m", "barnabas", "dump-log", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return theirs.stdout, own.stdout


def test_each_finds_the_group_that_the_other_left(story: Story) -> None:
    assert len(story.found) == LIVES - 1
    for left, found in zip(story.left, story.found, strict=False):
        assert found == left
        assert found[0]["group_state"] == "Stable"


def test_members_go_on_without_a_rebalance(story: Story) -> None:
    assert story.beats == [0] * (LIVES - 1)
    assert [bytes.fromhex(one) for one in story.assignments] == [b"life 0", b"life 1", b"life 2"]


def test_apache_kafka_reads_our_records_as_we_do(story: Story) -> None:
    for theirs, ours in story.dumps:
        assert "life 1" in theirs or "bGlmZSAx" in theirs
        assert ours.splitlines() == theirs.splitlines()


def test_our_broker_had_no_fault(story: Story) -> None:
    assert story.faults == []
