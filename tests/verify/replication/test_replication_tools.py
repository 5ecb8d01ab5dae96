"""Tools about replicas, ours and Apache Kafka's, on one cluster of three of our nodes: they print the same.

Where a command fails, ours says on stderr in one line what Apache Kafka's says among its stack traces, and the
exit code says which kind of failure it is.  M-D9, M-A2
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.walkthrough.nodes import Cluster, barnabas, cluster_of, combined, eventually

PLACES = "2:1:3,1:3:2,3:2:1,2:3:1"
HEALTH = (
    "",
    "--under-replicated-partitions",
    "--unavailable-partitions",
    "--under-min-isr-partitions",
    "--at-min-isr-partitions",
    "--topics-with-overrides",
)
# A busy machine is not taken for a dead broker.
OPTIONS = {"broker.session.timeout.ms": "9000"}


class Both:
    """Types a command twice, with our tool and with Apache Kafka's."""

    def __init__(self, kafka_tool: Callable[..., Any], cluster: Cluster) -> None:
        self._kafka_tool = kafka_tool
        self._cluster = cluster

    def _typed(self, line: str) -> tuple[str, str, str]:
        tool, *arguments = line.split()
        given = ("--bootstrap-server", self._cluster.bootstrap(), *arguments)
        ours = barnabas(tool, *given)
        theirs = self._kafka_tool("4.1.0", tool, *given)
        said = f"$ {line}\nours ({ours.returncode}):\n{ours.stdout}{ours.stderr}\n"
        said += f"theirs ({theirs.returncode}):\n{theirs.stdout}{theirs.stderr}"
        assert bool(ours.returncode) == bool(theirs.returncode), said
        return said, f"{ours.stdout}|{ours.stderr}", f"{theirs.stdout}|{theirs.stderr}"

    def print_the_same(self, line: str) -> None:
        said, ours, theirs = self._typed(line)
        # What Java warns of is on stderr.
        assert ours.partition("|")[0] == theirs.partition("|")[0], said

    def fail_alike(self, line: str) -> None:
        said, ours, theirs = self._typed(line)
        for each in ours.replace("|", "\n").splitlines():
            assert each.partition(" (see barnabas")[0] in theirs, said


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(tmp_path_factory.mktemp("tools"), combined(3), OPTIONS) as running:
        two = ("--config", "min.insync.replicas=2")
        create = ("topics", "--create", "--topic")
        running.barnabas(*create, "t", "--replica-assignment", PLACES, *two)
        running.barnabas(*create, "one", "--replica-assignment", "1,2,3")
        running.barnabas(*create, "two", "--replica-assignment", "1:2,3:1", *two)
        lines = "\n".join(map(str, range(100)))
        running.barnabas("console-producer", "--topic", "t", given=f"{lines}\n")
        yield running


def plan(path: Path, *assignments: list[int]) -> Path:
    partitions = [
        {"topic": "two", "partition": number, "replicas": replicas}
        for number, replicas in enumerate(assignments)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}), "utf-8")
    return path


def test_all_brokers_are_up(kafka_tool: Callable[..., Any], cluster: Cluster, tmp_path: Path) -> None:
    both = Both(kafka_tool, cluster)
    for flag in HEALTH:
        both.print_the_same(f"topics --describe --exclude-internal {flag}")
    both.print_the_same("log-dirs --describe --topic-list t,two")
    both.print_the_same("log-dirs --describe --topic-list nope")
    both.fail_alike("log-dirs --describe --broker-list 1,9")
    elect = "leader-election --election-type"
    both.print_the_same(f"{elect} preferred --topic t --partition 1")
    both.print_the_same(f"{elect} preferred --all-topic-partitions")
    both.print_the_same(f"{elect} unclean --topic t --partition 0")
    both.fail_alike(f"{elect} preferred --topic t --partition 9")
    both.fail_alike(f"{elect} preferred --topic nope --partition 0")
    both.fail_alike(f"{elect} preferred --topic t")
    both.print_the_same("get-offsets --topic t")
    both.print_the_same("reassign-partitions --list")
    file = f"--reassignment-json-file {plan(tmp_path / 'plan.json', [2, 1], [1, 3])}"
    both.print_the_same(f"reassign-partitions --verify {file}")


def test_each_verifies_what_the_other_reassigns(
    kafka_tool: Callable[..., Any], cluster: Cluster, tmp_path: Path
) -> None:
    both = Both(kafka_tool, cluster)
    bootstrap = ("--bootstrap-server", cluster.bootstrap())
    away = ("--reassignment-json-file", str(plan(tmp_path / "away.json", [2, 3], [3, 2])))
    back = ("--reassignment-json-file", str(plan(tmp_path / "back.json", [1, 2], [3, 1])))
    theirs = kafka_tool("4.1.0", "reassign-partitions", *bootstrap, *away, "--execute")
    ours = barnabas("reassign-partitions", *bootstrap, *away, "--verify")
    assert "Successfully started partition reassignments for two-0,two-1" in theirs.stdout
    assert ours.returncode == 0
    eventually(lambda: "in progress" not in cluster.barnabas("reassign-partitions", *away, "--verify"))
    both.print_the_same(f"reassign-partitions --verify {' '.join(away)}")
    ours = barnabas("reassign-partitions", *bootstrap, *back, "--execute")
    assert ours.stdout == theirs.stdout.replace("[1,2]", "[2,3]").replace("[3,1]", "[3,2]")
    eventually(lambda: "in progress" not in cluster.barnabas("reassign-partitions", *back, "--verify"))
    both.print_the_same(f"reassign-partitions --verify {' '.join(back)}")
    both.print_the_same("topics --describe --topic two")


def test_a_broker_is_down(kafka_tool: Callable[..., Any], cluster: Cluster, tmp_path: Path) -> None:
    both = Both(kafka_tool, cluster)
    cluster[1].kill()
    eventually(lambda: "Leader: none" in cluster.barnabas("topics", "--describe", "--topic", "one"))
    for flag in HEALTH:
        both.print_the_same(f"topics --describe --exclude-internal {flag}")
    both.print_the_same("log-dirs --describe --topic-list t,two")
    both.fail_alike("log-dirs --describe --broker-list 1")
    elect = "leader-election --election-type"
    both.fail_alike(f"{elect} preferred --topic t --partition 1")
    both.fail_alike(f"{elect} preferred --all-topic-partitions")
    both.fail_alike(f"{elect} unclean --topic one --partition 0")
    file = f"--reassignment-json-file {plan(tmp_path / 'plan.json', [2, 1])}"
    # Without the flag both fail: the throttle of a dead broker cannot be cleared.
    both.print_the_same(f"reassign-partitions --verify --preserve-throttles {file}")
    file = f"--reassignment-json-file {plan(tmp_path / 'plan.json', [2, 3, 1])}"
    both.fail_alike(f"reassign-partitions --execute {file}")
    cluster.start(1)
    cluster.wait_for_brokers()
    eventually(
        lambda: (
            not cluster.barnabas(
                "topics", "--describe", "--under-replicated-partitions", "--exclude-internal"
            )
        )
    )
    both.print_the_same("topics --describe --exclude-internal")
