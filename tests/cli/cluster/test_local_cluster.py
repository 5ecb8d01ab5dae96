"""A cluster of three real processes: started, looked at, broken, repaired and stopped by commands.

M-C: the active controller is killed, and a standby takes over.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.framework.exits import Exit
from tests.cli.cluster.local_cluster import PATIENCE_S, LocalCluster
from tools.ports import free_run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("local"))
    started = cluster.start("up", "--port", str(free_run(6)[0]))
    assert started.code == 0, started.err + started.out
    yield cluster
    cluster.run("down", "--delete", "--timeout", "20")


def active(cluster: LocalCluster) -> int:
    (node_id,) = (node_id for node_id, row in cluster.status().items() if row["epoch"] is not None)
    return int(node_id)


def test_a_cluster_is_found_again_and_up_is_idempotent(cluster: LocalCluster) -> None:
    before = cluster.status()
    assert [row["state"] for row in before.values()] == ["up"] * 3
    assert [row["roles"] for row in before.values()] == [["broker", "controller"]] * 3
    again = cluster.start("up")
    assert again.code == 0
    assert f"node 1 is up already (pid {before[1]['pid']})" in again.out
    assert cluster.status() == before
    assert active(cluster) in before


def test_an_existing_cluster_keeps_its_size(cluster: LocalCluster) -> None:
    refused = cluster.start("up", "--brokers", "5")
    assert (refused.code, refused.out) == (Exit.FAILED, "")
    assert "was created with --brokers 3" in refused.err


def test_an_unknown_node(cluster: LocalCluster) -> None:
    for command in ("start", "stop", "kill"):
        refused = cluster.run(command, "7")
        assert refused.code == Exit.NOT_FOUND
        assert "no node 7; its nodes are 1, 2, 3" in refused.err


def test_the_quorum_as_every_node_describes_it(cluster: LocalCluster) -> None:
    """Only the leader knows; brokers forward, and the admin client finds the active controller (KIP-919)."""
    leader = active(cluster)
    for node_id in (1, 2, 3):
        flags = ("--bootstrap-controller", cluster.controller(node_id))
        described = cluster.barnabas("metadata-quorum", *flags, "describe", "--replication")
        header, first, *others = (line.split() for line in described.out.splitlines())
        assert header[:2] == ["NodeId", "DirectoryId"]
        assert (int(first[0]), first[-1]) == (leader, "Leader")
        assert [row[-1] for row in others] == ["Follower", "Follower"]
        assert all(int(row[4]) > 0 for row in others), "the last fetch has a time"
    for server in cluster.servers.split(","):
        flags = ("--bootstrap-server", server)
        described = cluster.barnabas("metadata-quorum", *flags, "describe", "--status")
        assert f"LeaderId:               {leader}\n" in described.out


def test_the_metadata_of_the_running_quorum(cluster: LocalCluster) -> None:
    """From a node that runs, without its lock; and from the active controller, again for each command."""
    created = cluster.barnabas("topics", "--bootstrap-server", cluster.servers, "--create", "--topic", "seen")
    assert created.code == 0, created.err
    path = "/image/topics/byName"
    for source in (
        ("--directory", str(cluster.folder / "node-1" / "data")),
        ("--directory", str(cluster.folder / "node-2" / "data" / "__cluster_metadata-0")),
        ("--bootstrap-server", cluster.servers),
        ("--controllers", cluster.controller(3)),
    ):
        assert cluster.barnabas("metadata-shell", *source, "ls", path).out == "seen\n", source
    shell = cluster.barnabas(
        "metadata-shell",
        "--bootstrap-server",
        cluster.servers,
        given=f"ls {path}\nls /image/cluster/brokers\n",
    )
    assert shell.out.splitlines()[-3:] == ["1", "2", "3"] or ">> 1" in shell.out


def test_a_voter_is_removed_and_added_again(cluster: LocalCluster) -> None:
    """KIP-853, with one of the nodes as an observer meanwhile."""
    leader = active(cluster)
    other = next(node for node in cluster.layout["nodes"] if node["id"] != leader)
    server = ("--bootstrap-server", cluster.servers)
    voter = ("--controller-id", str(other["id"]), "--controller-directory-id", other["directory_id"])
    removed = cluster.barnabas("metadata-quorum", *server, "remove-controller", *voter)
    assert removed.code == 0, removed.err
    described = cluster.barnabas("metadata-quorum", *server, "describe", "--replication").out
    assert sorted(line.split()[-1] for line in described.splitlines()[1:]) == [
        "Follower",
        "Leader",
        "Observer",
    ]
    config = str(cluster.folder / f"node-{other['id']}" / "server.properties")
    added = cluster.barnabas("metadata-quorum", *server, "--command-config", config, "add-controller")
    assert added.code == 0, added.err
    described = cluster.barnabas("metadata-quorum", *server, "describe", "--replication").out
    assert sorted(line.split()[-1] for line in described.splitlines()[1:]) == [
        "Follower",
        "Follower",
        "Leader",
    ]


def until_fenced(cluster: LocalCluster, broker_id: int) -> dict[str, Any]:
    """The event, once both other nodes have seen it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for event in cluster.timeline():
            is_fenced = (event["kind"], event["subject"]) == ("broker-fenced", f"broker {broker_id}")
            if is_fenced and len(event["nodes"]) == 2:
                return event
        time.sleep(0.1)
    raise AssertionError("the broker was not fenced")


def test_the_active_controller_is_killed(cluster: LocalCluster) -> None:
    """A standby takes over, the timeline says why, and the node comes back."""
    killed = active(cluster)
    assert f"node {killed} was killed" in cluster.run("kill", str(killed)).out
    again = cluster.run("kill", str(killed))
    assert (again.code, again.out) == (0, f"barnabas: node {killed} is not running (killed)\n")
    created = cluster.barnabas(
        "topics", "--bootstrap-server", cluster.servers, "--create", "--topic", "after", "--if-not-exists"
    )
    assert created.code == 0, created.err
    rows = cluster.status()
    assert (rows[killed]["state"], rows[killed]["pid"]) == ("killed", None)
    successor = active(cluster)
    assert successor != killed
    fenced = until_fenced(cluster, killed)
    assert fenced["cause"] == "it sent no heartbeat within broker.session.timeout.ms"
    assert fenced["nodes"] == sorted({1, 2, 3} - {killed})
    assert cluster.start("start", str(killed)).code == 0
    assert cluster.status()[killed]["state"] == "up"
    events = cluster.timeline()
    elected = [event["subject"] for event in events if event["kind"] == "leader-elected"]
    # On a busy machine there may have been other elections before, the successor's own among them.
    last = len(elected) - 1 - elected[::-1].index(f"controller {successor}")
    assert elected.index(f"controller {killed}") < last
    positions = [(event["epoch"], event["offset"]) for event in events if event["offset"] is not None]
    assert positions == sorted(positions)


def test_the_timeline_in_the_log_of_the_running_cluster(cluster: LocalCluster) -> None:
    """What nodes have recorded of the metadata log is what the log itself says."""
    kinds = ("broker-registered", "broker-unfenced", "broker-fenced", "partition-leader", "partition-isr")

    def records(*arguments: str) -> list[tuple[object, ...]]:
        return [
            (event["epoch"], event["offset"], event["kind"], event["subject"], event["detail"])
            for event in cluster.timeline(*arguments)
            if event["kind"] in kinds
        ]

    assert records("--bootstrap-server", cluster.servers) == records() != []
    assert cluster.timeline("--since", "2100-01-01") == []


def test_without_a_majority_there_is_no_active_controller(cluster: LocalCluster) -> None:
    """A node that starts waits for a quorum; the last one can be stopped without one."""
    survivor = active(cluster)
    others = [str(node_id) for node_id in (1, 2, 3) if node_id != survivor]
    assert cluster.run("kill", *others).code == 0
    stopped = cluster.run("stop", str(survivor))
    assert f"node {survivor} has stopped" in stopped.out, stopped.err
    shown = cluster.run("status").out
    assert "no active controller: 0 of 3 controllers run, 2 are needed\n" in shown
    waiting = cluster.start("start", others[0], "--timeout", "1")
    assert waiting.code == Exit.TIMED_OUT
    assert "is not ready after 1 s: 1 of 3 controllers run, and 2 are needed" in waiting.out
    assert cluster.status()[int(others[0])]["state"] == "starting"


def test_an_interrupted_start_leaves_no_process(cluster: LocalCluster) -> None:
    """Ctrl+C while a node waits for a quorum."""
    assert cluster.run("kill", "1", "2", "3").code == 0
    file = cluster.folder / "node-1" / "process.json"
    file.unlink()
    command = [sys.executable, "-m", "barnabas", "cluster", "start", "1"]
    with subprocess.Popen(command, env={**os.environ, **cluster.environment}) as starting:
        while not file.exists():
            assert starting.poll() is None
            time.sleep(0.01)
        pid = json.loads(file.read_text("utf-8"))["pid"]
        starting.send_signal(signal.SIGINT)
    assert starting.returncode == Exit.INTERRUPTED
    assert not _is_alive(pid)


def test_down_keeps_the_data_and_leaves_no_process(cluster: LocalCluster) -> None:
    assert cluster.start("up").code == 0
    pids = [row["pid"] for row in cluster.status().values() if row["pid"] is not None]
    assert cluster.run("down").code == 0
    assert len(pids) == 3
    assert all(not _is_alive(pid) for pid in pids)
    assert (cluster.folder / "node-1" / "data" / "meta.properties").exists()
    deleted = cluster.run("down", "--delete")
    assert deleted.out.endswith(f"barnabas: {cluster.folder} is deleted\n")
    assert not cluster.folder.exists()
    assert cluster.run("status").code == Exit.NOT_FOUND


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
