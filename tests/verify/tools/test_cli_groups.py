"""Our tools for groups, transactions and the cluster against Apache Kafka, and their sessions with its own.

The same sessions are replayed against our broker in tests/cli.  # M-I
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sessions.differences import Differences
from tests.cli.sessions.replay import replay, session
from tests.cli.sessions.sessions import Places
from tests.verify.nodes.apache_broker import apache_broker

NAMES = ("groups", "group-resets", "transactions", "cluster")


@pytest.mark.parametrize("name", NAMES)
def test_our_tools_answer_as_apache_kafkas_do(oracle: Callable[..., Any], tmp_path: Path, name: Any) -> None:
    recorded = session(name)
    files = tmp_path / "files"
    files.mkdir()
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", recorded.settings) as broker:
        controller = f"localhost:{broker.port + 101}"
        places = Places(broker.bootstrap, controller, files)
        replay(recorded, places, Differences(with_our_broker=False))


def test_the_metadata_of_a_running_node_is_the_same_in_both_shells(
    oracle: Callable[..., Any], tmp_path: Path
) -> None:  # M-C9
    """Ours reads the log of a running node; Apache Kafka's wants a copy of it."""
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", {}) as broker:
        for arguments in (("--create", "--topic", "orders", "--partitions", "2"), ("--list",)):
            barnabas("topics", "--bootstrap-server", broker.bootstrap, *arguments)
        log = broker.data / "__cluster_metadata-0" / "00000000000000000000.log"
        copy = tmp_path / "copy" / log.name
        copy.parent.mkdir()
        copy.write_bytes(log.read_bytes())
        assert "orders" in barnabas("metadata-shell", "-s", str(log), "ls", "/image/topics/byName")
        ours = barnabas("metadata-shell", "-s", str(copy), "tree", "/image")
    done = oracle("4.1.0", "tool", "metadata-shell", "--snapshot", str(copy), "tree", "/image")
    assert done.returncode == 0, done.stderr
    assert ours == done.stdout


def barnabas(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
