"""Every answer of a controller of ours beside Apache Kafka's to the same requests, field by field.

Each starts fresh with the same file, cluster id, port and voters; the requests of quorum_asks.py go to one and
then to the other.  In one scene the node leads a quorum of its own; in the other it is a voter of three whose
others do not run, and the requests take it through epochs, votes and leaders.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import pytest

from barnabas.base.ids import Uuid
from tests.verify.answers.broker_answers import Rule, by, differences, prepared, rule, shown_if_set
from tests.verify.answers.broker_ask import Plain, RawClient
from tests.verify.quorum.mixed_cluster import APACHE, OURS, VERSIONS, Member, MixedCluster, wait_for
from tests.verify.quorum.quorum_asks import LEADER, ME, PEER, THIRD, VOTER, client
from tools.ports import free_oracle_base

# Nothing happens by the clock while the voter is asked.
PATIENT = {
    "controller.quorum.fetch.timeout.ms": "600000",
    "controller.quorum.election.timeout.ms": "600000",
}
DIRECTORIES = {number: Uuid(bytes([number] * 16)) for number in (ME, PEER, THIRD)}
# Parts of titles -> why ours answers in another way.
DELIBERATE = {
    "snapshot": "Apache Kafka fails inside where it refuses a snapshot (its records are null): -1 in place of the"
    " error that its follower reads, and that ours sends",
    "a negative position": "likewise",
    "a position out of range": "likewise",
    "a voter of another cluster": "a node of another cluster learns nothing about this one's leader",
    "delete a topic at a follower": "theirs looks for the topic in its own log; ours leaves that to the active"
    " controller, too",
    "moves at a follower": "theirs answers from its own log; ours leaves it to the active controller",
}
# Of 4.3.1 alone: versions and features beyond those of 4.1.0, and words about cordoned directories (KIP-1066).
DELIBERATE_BESIDE_4_3 = ("versions", "an envelope with a request", "an envelope with an older request")
ADD_RAFT_VOTER = 80
RULES: tuple[Rule, ...] = (
    rule(
        r"(api_keys|supported_features|finalized_features)",
        by("api_key", "name"),
        "the order of a hash map in Java",
    ),
    rule(
        r"ApiVersions\.api_keys",
        lambda rows: [row if row["api_key"] != ADD_RAFT_VOTER else {**row, "max_version": 1} for row in rows],
        "controllers of Apache Kafka 4.2 and later need AddRaftVoter 1 to join the voters of ours",
    ),
    rule(r"ApiVersions\.finalized_features_epoch", shown_if_set("offset"), "an offset of the metadata log"),
    rule(
        r"DescribeQuorum.*\.(high_watermark|log_end_offset)",
        shown_if_set("offset"),
        "NO_OP records come by the clock",
    ),
    rule(r"DescribeQuorum.*\.last_(fetch|caught_up)_timestamp", shown_if_set("time"), "the clock"),
    rule(r"Fetch.*\.(high_watermark|end_offset)", shown_if_set("offset"), "NO_OP records come by the clock"),
    rule(r"Fetch.*\.records", lambda records: "(records)" if records else records, "ids and times"),
    rule(r"(replica|voter)_directory_id", lambda text: "(directory)", "drawn at random with static voters"),
    rule(r"incarnation_id", lambda text: "(incarnation)", "drawn at random"),
)


class Scene(NamedTuple):
    name: str
    is_dynamic: bool


SCENES = [Scene(name, is_dynamic) for name in ("leader", "voter") for is_dynamic in (False, True)]


class Result(NamedTuple):
    answers: dict[str, Plain]
    quorum_state: dict[str, Any]
    faults: list[str]


def _asked(oracle: Callable[..., Any], home: Any, version: str, kind: str, scene: Scene, port: int) -> Result:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    cluster = MixedCluster(
        oracle, version, home, port, scene.is_dynamic, PATIENT if scene.name == "voter" else {}
    )
    numbers = (ME,) if scene.name == "leader" else (ME, PEER, THIRD)
    absent = ExitStack()
    try:
        members: list[Member] = []
        for number in numbers:
            members.append(cluster.add(number, kind))
            members[-1].directory_id = DIRECTORIES[number]
        me = members[0]
        for other in members[1:]:
            _keep_closed(absent.enter_context(socket.socket()), other.port)
        cluster.configure(me, members)
        cluster.format(me, members)
        cluster.start(ME)
        if scene.name == "leader":
            wait_for("an active controller", partial(_is_active, cluster, me))
        raw_client = RawClient(me.port, 0)
        answers = raw_client.run(LEADER if scene.name == "leader" else VOTER)
        cluster.kill(ME)
        state = json.loads((me.metadata / "quorum-state").read_text("utf-8"))
        return Result(answers, state, cluster.faults())
    finally:
        cluster.down()
        absent.close()


def _keep_closed(held: socket.socket, port: int) -> None:
    """Nobody listens on this port meanwhile: a stranger's answer to a pre-vote could begin an election."""
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("localhost", port))


def _is_active(cluster: MixedCluster, member: Member) -> bool:
    """Whether the records of the first start are committed and published."""
    answer = cluster.ask(member, "ApiVersions", 4, **client())
    features = {} if answer is None else {each["name"] for each in answer["finalized_features"]}
    return cluster.status(member) is not None and "group.version" in features


@pytest.fixture(scope="module")
def results(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Result]:
    """Each scene asked of each version of Apache Kafka, and of ours once."""
    home = tmp_path_factory.mktemp("quorum_answers") / "node"
    port = free_oracle_base()
    found = {}
    for scene in SCENES:
        found[scene, OURS] = _asked(oracle, home, VERSIONS[0], OURS, scene, port)
        for version in VERSIONS:
            found[scene, version] = _asked(oracle, home, version, APACHE, scene, port)
    return found


def _titles(scene: Scene) -> list[tuple[str, str]]:
    table = LEADER if scene.name == "leader" else VOTER
    return [(f"{one.title} v{version}", one.api) for one in table for version in one.versions]


def _is_deliberate(title: str, version: str) -> bool:
    if "another cluster's snapshot" in title:
        return False
    return any(part in title for part in DELIBERATE) or (
        version == "4.3.1" and title.startswith(DELIBERATE_BESIDE_4_3)
    )


CASES = [
    pytest.param(scene, title, api, id=f"{scene.name}-{'dynamic' if scene.is_dynamic else 'static'}-{title}")
    for scene in SCENES
    for title, api in _titles(scene)
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("scene", "title", "api"), CASES)
def test_answers_are_equal(
    results: dict[Any, Result],
    version: str,
    scene: Scene,
    title: str,
    api: str,
) -> None:
    theirs, ours = (prepared(api, results[scene, side].answers[title], {}, RULES) for side in (version, OURS))
    found = differences(theirs, ours)
    if _is_deliberate(title, version):
        assert found, "it no longer differs"
    else:
        assert not found, "Apache Kafka's -> ours\n" + "\n".join(found)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.name}-{scene.is_dynamic}")
def test_the_same_epoch_vote_and_leader_are_stored(
    results: dict[Any, Result], version: str, scene: Scene
) -> None:
    assert results[scene, OURS].quorum_state == results[scene, version].quorum_state


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.name}-{scene.is_dynamic}")
def test_no_request_makes_our_controller_fail_inside(results: dict[Any, Result], scene: Scene) -> None:
    assert results[scene, OURS].faults == []
