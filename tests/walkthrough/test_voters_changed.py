"""Voters are added, replaced and removed while topics are created (KIP-853)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barnabas.base.ids import Uuid
from tests.walkthrough.nodes import (
    BROKER,
    CLUSTER_ID,
    COMBINED,
    CONTROLLER,
    OBSERVER,
    Cluster,
    Node,
    cluster_of,
    combined,
    create,
    eventually,
)
from tests.walkthrough.topic_creator import TopicCreator, created_once

AUTO_JOIN = {"controller.quorum.auto.join.enable": "true"}


@pytest.mark.slow
def test_voters_are_added_replaced_and_removed_while_topics_are_created(tmp_path: Path) -> None:
    # M-C7 M-C8
    roles = {101: CONTROLLER, 102: CONTROLLER, 103: CONTROLLER, 1: BROKER}
    with cluster_of(tmp_path, roles, dynamic=True) as cluster:
        creator = TopicCreator(cluster)
        epoch = cluster.quorum().leader_epoch
        creator.start()
        creator.wait_for_more()
        _add(cluster, cluster.add(104, CONTROLLER))
        creator.wait_for_more()
        # The active controller itself: it leads until the others have committed that, and resigns.
        active = cluster.leader()
        _remove(cluster, active, cluster[active].directory_id)
        assert cluster[active].stop() == 0
        creator.wait_for_more()
        _replace(cluster, next(voter for voter in (101, 102, 103) if voter not in (active, cluster.leader())))
        creator.wait_for_more()
        creator.stop()
        assert creator.refused == []
        # One request is under way when a leadership ends.
        assert len(creator.uncertain) <= cluster.quorum().leader_epoch - epoch
        wanted = {*creator.created, *creator.uncertain}
        assert _voters(cluster) == {
            node.id: node.directory_id for node in cluster.nodes.values() if node.id not in (1, active)
        }
        with cluster.admin() as admin:
            eventually(lambda: set(admin.list_topics()) == wanted)
        del cluster.nodes[active]
        created_once(cluster, wanted)


def _add(cluster: Cluster, node: Node) -> None:
    """It observes first: a voter without the log could cost the quorum its majority."""
    node.start()
    _observes(cluster, node)
    printed = cluster.barnabas("metadata-quorum", "--command-config", str(node.config), "add-controller")
    assert f"Added controller {node.id} with directory id {node.directory_id}" in printed
    assert _voters(cluster)[node.id] == node.directory_id


def _observes(cluster: Cluster, node: Node) -> None:
    end = cluster.quorum().high_watermark
    observer = (node.id, node.directory_id)
    eventually(
        lambda: any(
            (each.id, each.directory_id) == observer and each.log_end_offset >= end
            for each in cluster.quorum().observers
        ),
        f"node {node.id} does not follow the log",
    )


def _remove(cluster: Cluster, node_id: int, directory_id: Uuid) -> None:
    options = ("--controller-id", str(node_id), "--controller-directory-id", str(directory_id))
    printed = cluster.barnabas("metadata-quorum", "remove-controller", *options)
    assert f"KRaft controller {node_id} with directory id {directory_id}" in printed
    assert _voters(cluster).get(node_id) != directory_id


def _replace(cluster: Cluster, node_id: int) -> None:
    """Its disk is empty: without its vote and log it is another voter, with another directory id."""
    node = cluster[node_id]
    lost = node.directory_id
    _lose_disk(node)
    node.format(CLUSTER_ID, OBSERVER)
    node.start()
    _observes(cluster, node)
    _remove(cluster, node_id, lost)
    printed = cluster.barnabas("metadata-quorum", "--command-config", str(node.config), "add-controller")
    assert f"Added controller {node_id} with directory id {node.directory_id}" in printed


def _lose_disk(node: Node) -> None:
    node.kill()
    shutil.rmtree(node.data)


def _voters(cluster: Cluster) -> dict[int, Uuid]:
    return {voter.id: voter.directory_id for voter in cluster.quorum().voters}


@pytest.mark.slow
def test_controllers_join_the_voters_by_themselves(tmp_path: Path) -> None:
    """`controller.quorum.auto.join.enable`: also one that comes back with an empty disk."""
    # M-C7
    with cluster_of(tmp_path, {1: COMBINED}, AUTO_JOIN, dynamic=True) as cluster:
        for node_id in (2, 3):
            joining = cluster.add(node_id, CONTROLLER)
            joining.options.update(AUTO_JOIN)
            joining.write(cluster.controllers, dynamic=True)
            joining.start()
        _has_voters(cluster, 1, 2, 3)
        _lose_disk(cluster[3])
        cluster[3].format(CLUSTER_ID, OBSERVER)
        cluster[3].start()
        _has_voters(cluster, 1, 2, 3)
        # The new voter counts: the quorum goes on without the other one.
        cluster[2].kill()
        with cluster.admin() as admin:
            assert create(admin, "with-the-new-voter") is None


def _has_voters(cluster: Cluster, *node_ids: int) -> None:
    wanted = {node_id: cluster[node_id].directory_id for node_id in node_ids}
    eventually(lambda: _voters(cluster) == wanted, f"the voters are not {wanted}")


@pytest.mark.slow
def test_a_static_quorum_becomes_a_dynamic_one(tmp_path: Path) -> None:
    """kraft.version 1, while topics are created; then a voter is added that no configuration names."""
    # M-C7
    with cluster_of(tmp_path, combined(3)) as cluster:
        creator = TopicCreator(cluster)
        creator.start()
        creator.wait_for_more()
        upgraded = cluster.barnabas("features", "upgrade", "--feature", "kraft.version=1")
        assert upgraded == "kraft.version was upgraded to 1.\n"
        _has_voters(cluster, 1, 2, 3)
        creator.wait_for_more()
        _add(cluster, cluster.add(4, CONTROLLER))
        creator.wait_for_more()
        creator.stop()
        assert creator.refused == []
        created_once(cluster, {*creator.created, *creator.uncertain})
