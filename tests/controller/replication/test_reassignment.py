"""Reassignments complete when their targets are in sync, and can be cancelled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.replication.reassignment import Revert, revert
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.controller.replication.three_brokers import Three


def test_a_reassignment_completes_when_its_targets_are_in_sync() -> None:
    # KIP-455
    three = Three()
    three.join(4)
    three.epochs[4] = three.image.brokers[4].epoch
    assert three.move([4, 2]).responses[0].partitions[0].error_code == 0
    partition = three.partition
    assert (partition.replicas, partition.adding_replicas) == ((4, 2, 1, 3), (4,))
    assert partition.removing_replicas == (1, 3)
    listed = three.send(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    assert listed.topics[0].partitions[0].adding_replicas == [4]
    # The leader itself is removed, and must refresh its metadata.
    assert three.propose([1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    partition = three.partition
    assert (partition.replicas, partition.isr, partition.leader) == ((4, 2), (2, 4), 4)
    assert not partition.adding_replicas
    assert not partition.removing_replicas
    listed = three.send(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    assert listed.topics == []


def test_a_reassignment_can_be_cancelled() -> None:
    three = Three()
    three.join(4)
    three.move([4, 2])
    assert three.move(None).responses[0].partitions[0].error_code == 0
    assert (three.partition.replicas, three.partition.isr) == ((2, 1, 3), (1, 2, 3))
    assert three.move(None).responses[0].partitions[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_reassignments_are_listed_for_named_partitions() -> None:
    three = Three()
    three.join(4)
    three.move([4, 2])
    wanted = ListPartitionReassignmentsRequest.Topics

    def listed(**partitions: list[int]) -> list[tuple[str, list[int]]]:
        topics = [wanted(name=name, partition_indexes=numbers) for name, numbers in partitions.items()]
        request = ListPartitionReassignmentsRequest(topics=topics)
        response = three.send(request, ListPartitionReassignmentsResponse)
        assert (response.throttle_time_ms, response.error_code, response.error_message) == (0, 0, None)
        return [(topic.name, [one.partition_index for one in topic.partitions]) for topic in response.topics]

    assert listed(nowhere=[0], t=[0, 7]) == [("t", [0])]
    assert listed(t=[7]) == listed(t=[]) == listed() == []


@pytest.mark.parametrize(
    ("replicas", "isr", "adding", "expected"),
    [
        ((4, 1, 2), (1, 4), (4,), Revert([1, 2], [1], unclean=False)),
        ((4, 1, 2), (4,), (4,), Revert([1, 2], [1], unclean=True)),
        ((1, 2), (2,), (), Revert([1, 2], [2], unclean=False)),
    ],
)
def test_a_cancelled_reassignment_leaves_the_original_replicas(
    replicas: tuple[int, ...], isr: tuple[int, ...], adding: tuple[int, ...], expected: Revert
) -> None:
    partition = replace(Three().partition, replicas=replicas, isr=isr, adding_replicas=adding)
    assert revert(partition) == expected


def test_a_reassignment_to_new_replicas_only_cannot_be_cancelled() -> None:
    partition = replace(Three().partition, replicas=(4, 5), isr=(4,), adding_replicas=(4, 5))
    with pytest.raises(KafkaError, match="addingReplicas contains all replicas") as refused:
        revert(partition)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
