"""Elections, reassignments and their tools on a cluster of three real processes (golden/cli/kraft-4.1.0)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.client.sync import Producer
from tests.cli.cluster.local_cluster import LocalCluster
from tools.ports import free_run

# One cluster for all of them.
pytestmark = pytest.mark.xdist_group("replicas")

PATIENCE_S = 30
POLL_S = 0.05
# The partitions of walkthrough 3, with ids from 1.
ASSIGNMENT = "2:1:3,1:3:2,3:2:1,2:3:1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("replicas"))
    started = cluster.start("up", "--port", str(free_run(6)[0]))
    assert started.code == 0, started.err + started.out
    yield cluster
    cluster.run("down", "--delete", "--timeout", "20")


def tool(cluster: LocalCluster, name: str, *arguments: str) -> str:
    done = cluster.barnabas(name, "--bootstrap-server", cluster.servers, *arguments)
    assert done.code == 0, done.err
    return done.out


def described(cluster: LocalCluster, *flags: str) -> dict[str, tuple[str, str, str]]:
    """Leader, replicas and ISR by partition, as `topics --describe` prints them."""
    lines = tool(cluster, "topics", "--describe", *flags, "--exclude-internal").splitlines()
    pattern = r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)"
    found = [match.groups() for line in lines if (match := re.match(pattern, line))]
    return {f"{topic}-{number}": (leader, replicas, isr) for topic, number, leader, replicas, isr in found}


def wait_for(what: str, check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_S)


def in_sync(cluster: LocalCluster, topic: str) -> bool:
    states = described(cluster, "--topic", topic).values()
    return all(sorted(replicas) == sorted(isr) for _, replicas, isr in states)


def plan(path: Path, topic: str, *assignments: list[int]) -> str:
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas}
        for number, replicas in enumerate(assignments)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}), "utf-8")
    return str(path)


def test_a_broker_stops_and_comes_back(cluster: LocalCluster) -> None:
    """Walkthrough 3; M-D3, M-D4, M-D7: the next in Replicas leads, until an election by hand."""
    tool(cluster, "topics", "--create", "--topic", "secondTopic", "--replica-assignment", ASSIGNMENT)
    first = described(cluster)
    assert [leader for leader, _, _ in first.values()] == ["2", "1", "3", "2"]
    assert cluster.run("stop", "1").code == 0
    without = described(cluster)
    assert [leader for leader, _, _ in without.values()] == ["2", "3", "3", "2"]
    assert all("1" not in isr.split(",") for _, _, isr in without.values())
    assert described(cluster, "--under-replicated-partitions").keys() == without.keys()
    assert described(cluster, "--unavailable-partitions") == {}
    explained = tool(cluster, "explain", "--partitions", "--topic", "secondTopic")
    assert explained.startswith(
        "4 partitions, 4 with a problem\n\nUNDER-REPLICATED  secondTopic-0: 2 of 3 replicas"
    )
    assert "  seen   broker 1 is down\n  do     start broker 1; if it is gone for good" in explained
    assert explained.count("UNDER-REPLICATED") == 1, "one reason, said once"
    assert re.findall(r"secondTopic-\d: 2 of 3", explained) == [
        f"secondTopic-{each}: 2 of 3" for each in range(4)
    ]
    assert cluster.start("start", "1").code == 0
    wait_for("broker 1 is in sync again", lambda: in_sync(cluster, "secondTopic"))
    assert described(cluster)["secondTopic-1"][0] == "3", "it does not lead by itself"
    flags = ("--election-type", "preferred")
    elected = tool(cluster, "leader-election", *flags, "--topic", "secondTopic", "--partition", "1")
    assert elected == "Successfully completed leader election (PREFERRED) for partitions secondTopic-1\n"
    again = tool(cluster, "leader-election", *flags, "--topic", "secondTopic", "--partition", "1")
    assert again == "Valid replica already elected for partitions secondTopic-1\n"
    assert described(cluster)["secondTopic-1"][0] == "1"
    checkpoint = cluster.folder / "node-1" / "data" / "secondTopic-1" / "leader-epoch-checkpoint"
    wait_for("leader epoch 2", lambda: checkpoint.read_text("utf-8") == "0\n1\n2 0\n")


def test_replicas_are_reassigned(cluster: LocalCluster, tmp_path: Path) -> None:
    """M-D9, golden/cli reassign: with a throttle, which --verify removes."""
    tool(cluster, "topics", "--create", "--topic", "mv", "--replica-assignment", "1:2,2:1")
    with Producer({"bootstrap.servers": cluster.servers, "acks": "all"}) as producer:
        for number in range(200):
            producer.send("mv", value=str(number).encode())
        producer.flush()
    file = ("--reassignment-json-file", plan(tmp_path / "plan.json", "mv", [2, 3], [3, 1]))
    started = tool(cluster, "reassign-partitions", *file, "--execute", "--throttle", "100000000").splitlines()
    assert started[0] == "Current partition replica assignment"
    assert started[-2] == "The inter-broker throttle limit was set to 100000000 B/s"
    assert started[-1] == "Successfully started partition reassignments for mv-0,mv-1"
    verify = ("reassign-partitions", *file, "--verify")
    wait_for("both complete", lambda: "in progress" not in tool(cluster, *verify))
    assert tool(cluster, *verify).splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition mv-0 is completed.",
        "Reassignment of partition mv-1 is completed.",
        "",
        "Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic mv",
    ]
    assert described(cluster, "--topic", "mv")["mv-0"][1] == "2,3"
    assert "throttled" not in tool(cluster, "topics", "--describe", "--topic", "mv")
    directories = json.loads(tool(cluster, "log-dirs", "--describe", "--topic-list", "mv").splitlines()[-1])
    sizes = {
        (broker["broker"], replica["partition"]): (replica["size"], replica["offsetLag"])
        for broker in directories["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    }
    assert sizes.keys() == {(2, "mv-0"), (3, "mv-0"), (3, "mv-1"), (1, "mv-1")}
    assert sizes[2, "mv-0"] == sizes[3, "mv-0"]
    assert sizes[3, "mv-1"] == sizes[1, "mv-1"]


def test_a_reassignment_to_a_broker_that_is_down_waits_and_can_be_cancelled(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """M-D9; `explain` says what it waits for, and the last lines are those of golden/cli."""
    tool(cluster, "topics", "--create", "--topic", "slow", "--replica-assignment", "1:2")
    file = ("--reassignment-json-file", plan(tmp_path / "plan.json", "slow", [2, 3]))
    assert cluster.run("kill", "3").code == 0
    # Its session has not expired yet: nobody knows that it is down.
    tool(cluster, "reassign-partitions", *file, "--execute")
    listed = tool(cluster, "reassign-partitions", "--list").splitlines()
    assert listed == ["Current partition reassignments:", "slow-0: replicas: 2,3,1. adding: 3. removing: 1."]
    shown = tool(cluster, "topics", "--describe", "--topic", "slow")
    assert "\tReplicas: 2,3,1\tIsr: 1,2\tAdding Replicas: 3\tRemoving Replicas: 1\tElr: " in shown
    explained = json.loads(tool(cluster, "explain", "--partitions", "--topic", "slow", "-o", "json"))
    assert [found["cause"] for found in explained] == [
        "reassignment in progress",
        "not led by the preferred replica",
    ]
    assert explained[0]["summary"] == "slow-0: its reassignment waits for broker 3"
    cancelled = tool(cluster, "reassign-partitions", *file, "--cancel", "--preserve-throttles")
    assert "Successfully cancelled partition reassignment for: slow-0" in cancelled
    assert tool(cluster, "reassign-partitions", "--list") == "No partition reassignments found.\n"
    assert described(cluster, "--topic", "slow")["slow-0"] == ("1", "2,1", "1,2")
    assert cluster.start("start", "3").code == 0
