"""Topics are created without a pause while active controllers are killed and come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import BatchView, batches
from barnabas.protocol.records.control import LeaderChangeMessage
from tests.walkthrough.nodes import Node, cluster_of, combined, eventually
from tests.walkthrough.topic_creator import TopicCreator, created_once

KILLS = 3


@pytest.mark.slow
def test_nothing_answered_is_lost_and_nothing_is_done_twice(tmp_path: Path) -> None:
    # M-C8 M-C4 M-C6
    with cluster_of(tmp_path, combined(3)) as cluster:
        creator = TopicCreator(cluster)
        epoch = cluster.quorum().leader_epoch
        creator.start()
        for _ in range(KILLS):
            creator.wait_for_more()
            active = cluster.leader()
            cluster[active].kill()
            creator.wait_for_more()
            cluster.start(active)
        creator.wait_for_more()
        creator.stop()
        assert creator.refused == []
        # One request is under way when a leadership ends.
        assert len(creator.uncertain) <= cluster.quorum().leader_epoch - epoch
        for node_id in cluster.nodes:
            with cluster.admin(node_id) as admin:
                wanted = {*creator.created, *creator.uncertain}
                eventually(lambda admin=admin, wanted=wanted: set(admin.list_topics()) == wanted)  # type: ignore[misc]
        created_once(cluster, wanted)
        for node in cluster.nodes.values():
            _each_epoch_begins_with_its_leader(node)


def _each_epoch_begins_with_its_leader(node: Node) -> None:
    """A leader commits records of earlier epochs by one of its own (figure 8 of the Raft paper)."""
    # M-C6
    log = (node.data / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    first: dict[int, BatchView] = {}
    for batch in batches(log):
        first.setdefault(batch.leader_epoch, batch)
    assert len(first) > KILLS
    for epoch, batch in first.items():
        assert batch.is_control, f"epoch {epoch} begins with a record of the controller"
        messages = [read_quorum_message(record) for record in batch.records()]
        assert any(isinstance(message, LeaderChangeMessage) for message in messages)
