"""Apache Kafka 3.9.1's command line against three brokers of ours prints what it prints against its own.

Replays golden/cli/zk-3.9.1, in the order in which it was recorded (M-A2 M-A7 M-B2).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

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
FILES = ("topics", "errors", "produce-consume", "configs", "delete")
# What is not compared, and why.
NOT_COMPARED = {
    "console-consumer": "partitions are polled in any order, and records have times",
    "delete-records": "its file was not kept",
    "producer-perf-test": "it measures",
    "consumer-perf-test": "it measures",
    "verifiable-producer": "times, and offsets after those of the measured records",
    "verifiable-consumer": "times",
    "--entity-type broker-loggers": "the loggers are those of each program",
    "localhost:1 ": "no broker is asked",
}
# Where a broker listens and keeps its data, and what `cluster up` sets.
OF_THE_BROKER = ("advertised.listeners", "listeners", "log.dirs", "zookeeper.connect", "zookeeper.session.")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, int]]:
    home = tmp_path_factory.mktemp("commands") / "cluster"

    def cluster(*words: str) -> None:
        command = [sys.executable, "-m", "barnabas", "cluster", *words, "--dir", str(home)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    given = [word for name, value in OPTIONS.items() for word in ("--override", f"{name}={value}")]
    first = free_run(4 * len(BROKERS))[0]
    try:
        cluster("up", "--mode", "zookeeper", "--port", str(first), "--timeout", "120", *given)
        nodes = json.loads((home / "cluster.json").read_text("utf-8"))["nodes"]
        yield {number: node["broker_port"] for number, node in zip(BROKERS, nodes, strict=True)}
    finally:
        cluster("down")


def test_the_tools_print_what_was_recorded(
    oracle: Callable[..., Any], golden: Path, ports: dict[int, int]
) -> None:
    found = []
    for name in FILES:
        for command in recorded(golden / "cli" / "zk-3.9.1" / f"{name}.txt", ports):
            done = oracle(VERSION, "tool", command.tool, *command.words[1:], stdin=command.given or None)
            printed = f"{done.stdout}{done.stderr}[exit {done.returncode}]"
            if not any(words in f"{command.line} " for words in NOT_COMPARED):
                found += _differences(command, printed)
    assert "\n".join(found) == ""


def _differences(command: Recorded, printed: str) -> list[str]:
    theirs, ours = (_shown(text) for text in (command.printed, printed))
    changed = list(unified_diff(theirs, ours, "recorded", "now", lineterm="", n=0))[2:]
    return [f"$ {command.line}", *changed] if changed else []


def _shown(text: str) -> list[str]:
    """Lines on the standard output and on the standard error were recorded as they came: each by itself."""
    return sorted(line for line in comparable(text) if line and not line.lstrip().startswith(OF_THE_BROKER))
