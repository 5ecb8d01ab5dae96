"""Apache Kafka 3.9.1's command line against three brokers of ours prints what it prints against its own.

Replays golden/cli/zk-3.9.1, in the order in which it was recorded (M-A2 M-A7 M-B2 M-B3).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sessions.recorded_cluster import ClusterActors
from tests.cli.sessions.sessions import Places
from tests.verify.zookeeper.between_commands import FILES, actions_before
from tests.verify.zookeeper.recorded_commands import Recorded, comparable, recorded
from tools.ports import free_run

VERSION = "3.9.1"
BROKERS = (1, 2, 3)
# As it was recorded.
OPTIONS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}
# In this order; from "groups" on replicas are where they were, and state is waited for.
WALK = (
    "topics",
    "errors",
    "produce-consume",
    "groups",
    "configs",
    "cluster",
    "broker-down",
    "reassign",
    "delete",
)
PLACED = WALK[WALK.index("groups") :]
SETTLING_S = 20.0
# What is not compared, and why.
NOT_COMPARED = {
    "console-consumer": "partitions are polled in any order, and records have times",
    "producer-perf-test": "it measures",
    "consumer-perf-test": "it measures",
    "verifiable-producer": "times, and offsets after those of the measured records",
    "verifiable-consumer": "times",
    "--entity-type broker-loggers": "the loggers are those of each program",
    "localhost:1 ": "no broker is asked",
}
DIFFERENT = {
    # All offsets of this empty group have been deleted: Apache Kafka 3.9's coordinator forgets it then, that of
    # 4.1, which this one follows in both modes, at the next check for offsets that have expired.
    ("groups", 19): "Deletion of requested consumer groups ('g1') was successful.\n[exit 0]",
}
# Where a broker listens and keeps its data, and what `cluster up` sets.
OF_THE_BROKER = ("advertised.listeners", "listeners", "log.dirs", "zookeeper.connect", "zookeeper.session.")


class ThreeBrokers:
    """The cluster, as `ClusterActors` knows clusters."""

    names = tuple(f"broker-{number}" for number in BROKERS)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._home = folder / "cluster"
        for name, content in FILES.items():
            (folder / name).write_text(f"{content}\n", "utf-8")

    def call(self, *words: str) -> None:
        command = [sys.executable, "-m", "barnabas", "cluster", *words, "--dir", str(self._home)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    def up(self) -> None:
        given = [word for name, value in OPTIONS.items() for word in ("--override", f"{name}={value}")]
        first = free_run(4 * len(BROKERS))[0]
        self.call("up", "--mode", "zookeeper", "--port", str(first), "--timeout", "120", *given)

    def kill(self, broker_id: str) -> None:
        self.call("kill", broker_id)

    def start(self, broker_id: str) -> None:
        self.call("start", broker_id, "--timeout", "120")

    @property
    def ports(self) -> dict[int, int]:
        nodes = json.loads((self._home / "cluster.json").read_text("utf-8"))["nodes"]
        return {number: node["broker_port"] for number, node in zip(BROKERS, nodes, strict=True)}

    @property
    def places(self) -> Places:
        servers = [f"localhost:{port}" for port in self.ports.values()]
        return Places(servers[0], "", self.folder, ",".join(servers))

    def config(self, name: str) -> Path:
        return self._home / name.replace("broker", "node") / "server.properties"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    cluster = ThreeBrokers(tmp_path_factory.mktemp("commands"))
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.call("down")


def test_the_tools_print_what_was_recorded(
    oracle: Callable[..., Any], golden: Path, cluster: ThreeBrokers
) -> None:
    def typed(command: Recorded) -> str:
        done = oracle(VERSION, "tool", command.tool, *command.words[1:], stdin=command.given or None)
        return f"{done.stdout}\n{done.stderr}[exit {done.returncode}]"

    found = []
    with ClusterActors(cluster) as actors:
        for name in WALK:
            file = golden / "cli" / "zk-3.9.1" / f"{name}.txt"
            for number, command in enumerate(recorded(file, cluster.ports, cluster.folder)):
                for line in actions_before(name, number):
                    actors.act(line)
                command = command._replace(printed=DIFFERENT.get((name, number), command.printed))
                found += _differences(command, partial(typed, command), name)
    assert not found, "\n".join(found)


def _differences(command: Recorded, typed: Callable[[], str], file: str) -> list[str]:
    """What differs in the end: a question is asked again while the cluster may still be on its way."""
    is_placed = file in PLACED
    theirs, ours = _shown(command.printed, is_placed), _shown(typed(), is_placed)
    if any(words in f"{command.line} " for words in NOT_COMPARED):
        return []
    limit = time.monotonic() + SETTLING_S
    while ours != theirs and is_placed and command.only_asks and time.monotonic() < limit:
        ours = _shown(typed(), is_placed)
    changed = list(unified_diff(theirs, ours, "recorded", "now", lineterm="", n=0))[2:]
    return [f"{file}: $ {command.line}", *changed] if changed else []


def _shown(text: str, is_placed: bool) -> list[str]:
    """Lines on the standard output and on the standard error were recorded as they came: each by itself."""
    lines = comparable(text, is_placed=is_placed)
    return sorted(line for line in lines if line and not line.lstrip().startswith(OF_THE_BROKER))
