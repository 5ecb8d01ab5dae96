"""Controllers alone, brokers alone, and nodes that are configured against each other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from barnabas.base.ids import Uuid
from tests.walkthrough.nodes import (
    BROKER,
    COMBINED,
    CONTROLLER,
    Cluster,
    Node,
    barnabas,
    cluster_of,
    create,
    eventually,
)

OTHER_CLUSTER = str(Uuid(bytes(range(16))))


def test_a_controller_alone_and_brokers_alone(tmp_path: Path) -> None:
    # M-C1 M-C3
    with cluster_of(tmp_path, {101: CONTROLLER, 1: BROKER, 2: BROKER}) as cluster:
        described = cluster.barnabas("topics", "--create", "--topic", "orders", "--partitions", "2")
        assert "Created topic orders." in described
        controller = f"127.0.0.1:{cluster[101].controller_port}"
        status = barnabas(
            "metadata-quorum", "--bootstrap-controller", controller, "describe", "--status"
        ).stdout
        assert "LeaderId:               101\n" in status
        # A broker that registers again gets the log from where it was.
        cluster[2].kill()
        with cluster.admin(1) as admin:
            assert create(admin, "meanwhile") is None
        cluster.start(2)
        with cluster.admin(2) as admin:
            assert {"orders", "meanwhile"} <= set(admin.list_topics())


@pytest.mark.parametrize(
    ("roles", "node_id", "voters", "why"),
    [
        ("controller", 1, "2@127.0.0.1:1", "the node id 1 must be included in the set of voters"),
        ("broker", 1, "1@127.0.0.1:1", "the node id 1 must not be included in the set of voters"),
        ("broker", 1, "", "either controller.quorum.bootstrap.servers must contain"),
        ("brocker", 1, "1@127.0.0.1:1", "process.roles"),
    ],
)
def test_a_configuration_that_is_refused(
    roles: str, node_id: int, voters: str, why: str, tmp_path: Path
) -> None:
    # M-C1
    node = Node(tmp_path, node_id, roles, {})
    node.write(voters)
    done = barnabas("server-start", str(node.config))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert why in line, line


def test_directories_that_are_refused(tmp_path: Path) -> None:
    """Not formatted, of another cluster, of another node."""
    # M-C2
    node = Node(tmp_path, 1, COMBINED, {})
    node.write(f"1@127.0.0.1:{node.controller_port}")
    assert "is not formatted" in _only_line(barnabas("server-start", str(node.config)))
    cluster_id = barnabas("storage", "random-uuid").stdout.strip()
    assert Uuid.parse(cluster_id)
    node.format(cluster_id)
    shown = barnabas("storage", "info", "-c", str(node.config)).stdout
    assert f"Found metadata: {{cluster.id={cluster_id}, directory.id={node.directory_id}, node.id=1" in shown
    again = barnabas("storage", "format", "-t", OTHER_CLUSTER, "-c", str(node.config), "--ignore-formatted")
    assert again.returncode == 1
    assert cluster_id in again.stderr
    node.config.write_text(node.config.read_text("utf-8").replace("=1", "=2", 1), "utf-8")
    assert "node" in _only_line(barnabas("server-start", str(node.config)))


def _only_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_nodes_that_are_refused(tmp_path: Path) -> None:
    """Another cluster's id, other voters, and an id that another node has: one clear line each."""
    # M-C1 M-C2
    with cluster_of(tmp_path / "cluster", {1: COMBINED, 2: COMBINED, 101: CONTROLLER}) as cluster:
        _another_cluster(cluster, tmp_path)
        _other_voters(cluster, tmp_path)
        _same_id(cluster, tmp_path)
        with cluster.admin() as admin:
            assert create(admin, "undisturbed") is None


def _another_cluster(cluster: Cluster, folder: Path) -> None:
    node = Node(folder / "another-cluster", 9, BROKER, {})
    node.write(cluster.voters)
    node.format(OTHER_CLUSTER)
    node.start()
    assert node.ended() == 1
    (line,) = {
        line.partition(" refuse this node: ")[2] for line in node.said() if "refuse this node: " in line
    }
    assert line.startswith(f"the cluster id of this node is {OTHER_CLUSTER}, and theirs is another")
    refused = [line for line in node.said() if "refuses this node's requests" in line]
    assert 1 <= len(refused) <= 3, "each peer is named once"


def _other_voters(cluster: Cluster, folder: Path) -> None:
    """The configuration names another set than the leader's: as a voter of it, this node would count wrongly."""
    node = Node(folder / "other-voters", 9, CONTROLLER, {})
    node.write(f"{cluster.voters},9@127.0.0.1:{node.controller_port}")
    node.format()
    node.start()
    assert node.ended() == 1
    lines = [
        line for line in node.said() if "controller.quorum.voters names the nodes 1, 2, 9, 101 here" in line
    ]
    assert "but 1, 2, 101 on node" in lines[-1]
    assert "it must be the same on all nodes" in lines[-1]


def _same_id(cluster: Cluster, folder: Path) -> None:
    """A second node with the id of a follower fetches from the leader."""
    active = cluster.leader()
    follower = next(node for node in cluster.nodes.values() if node.id != active)
    node = Node(folder / "same-id", follower.id, CONTROLLER, {})
    node.write(cluster.voters)
    node.format()
    node.start()
    try:
        # The leader refuses it; if a busy machine has elected its namesake meanwhile, it sees that itself.
        lines = node.says(f"another running node has node.id={follower.id}")
        if any("refuses this node's requests" in line for line in lines):
            lines += eventually(
                lambda: (
                    [
                        line
                        for each in cluster.nodes.values()
                        for line in each.said()
                        if f"two running nodes have node.id={follower.id}" in line
                    ]
                    or None
                )
            )
    finally:
        node.kill()
    assert all("ERROR" in line for line in lines)
