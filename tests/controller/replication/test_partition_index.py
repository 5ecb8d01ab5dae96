"""The index of partitions finds what a walk over all of them finds."""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.controller.replication.partition_index import Entry, PartitionIndex
from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import NO_LEADER
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import creation
from tests.controller.lab import Lab
from tests.controller.replication.histories import random_history


def check(state: ControllerState) -> int:
    """Compares every query; returns how many partitions there are."""
    walked = list(state.partitions())
    brokers = {broker for _, _, partition in walked for broker in partition.replicas}
    for broker_id in brokers | {4711}:
        assert list(state.in_isr(broker_id)) == [entry for entry in walked if broker_id in entry[2].isr]
        assert list(state.in_elr(broker_id)) == [entry for entry in walked if broker_id in entry[2].elr]
        assert state.leads_any(broker_id) == any(entry[2].leader == broker_id for entry in walked)
    for directory in {directory for entry in walked for directory in entry[2].directories}:
        assert list(state.in_directory(directory)) == [
            entry for entry in walked if directory in entry[2].directories
        ]
    assert list(state.leaderless()) == [entry for entry in walked if entry[2].leader == NO_LEADER]
    assert list(state.imbalanced()) == [entry for entry in walked if entry[2].leader != entry[2].replicas[0]]
    return len(walked)


def test_the_index_follows_every_change() -> None:
    assert sum(check(random_history(seed).lab.controller.state) for seed in range(20)) > 50


def test_an_index_that_follows_equals_one_that_is_built() -> None:
    state = random_history(3).lab.controller.state
    found: list[Entry] = list(state.imbalanced())
    assert found == list(PartitionIndex(state.image).imbalanced(state.image))


def test_deleted_topics_are_forgotten_and_a_reverted_image_is_indexed_again() -> None:
    lab = Lab()
    lab.join()
    lab.send(creation("a", "b", partitions=3), CreateTopicsResponse)
    before = lab.image
    assert check(lab.controller.state) == 6
    named = DeleteTopicsRequest.DeleteTopicState(name="a", topic_id=ZERO_UUID)
    lab.send(DeleteTopicsRequest(topics=[named], timeout_ms=1), Message)
    assert check(lab.controller.state) == 3
    lab.controller.deactivate(before)
    assert check(lab.controller.state) == 6
