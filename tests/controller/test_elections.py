"""Leaders, ISRs and reassignments in a cluster of three brokers."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.metadata.topics import NO_LEADER, RECOVERED, RECOVERING, Partition
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import heartbeat
from tests.controller.lab import Lab


class Three(Lab):
    """Three brokers and a topic with one partition on 1, 2 and 3."""

    def __init__(self, release: str = "4.1", **configs: str) -> None:
        super().__init__(release)
        self.epochs = {broker_id: self.join(broker_id) for broker_id in (1, 2, 3)}
        topic = CreateTopicsRequest.CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])
            ],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in configs.items()
            ],
        )
        self.send(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        self.topic_id: Uuid = self.image.topic_ids["t"]

    @property
    def partition(self) -> Partition:
        return self.image.topics[self.topic_id].partitions[0]

    def fence(self, broker_id: int) -> None:
        request = heartbeat(self.epochs[broker_id], self.end_offset, broker_id=broker_id, want_fence=True)
        self.send(request, BrokerHeartbeatResponse)

    def unfence(self, broker_id: int) -> None:
        request = heartbeat(self.epochs[broker_id], self.end_offset, broker_id=broker_id)
        self.send(request, BrokerHeartbeatResponse)

    def propose(
        self,
        isr: list[int],
        *,
        broker_id: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        recovery_state: int = 0,
        broker_epochs: dict[int, int] | None = None,
        topic_id: Uuid | None = None,
        number: int = 0,
    ) -> AlterPartitionResponse.PartitionData:
        """The response to the leader's AlterPartition."""
        now = self.partition
        epochs = self.epochs if broker_epochs is None else broker_epochs
        sender = now.leader if broker_id is None else broker_id
        data = AlterPartitionRequest.PartitionData(
            partition_index=number,
            leader_epoch=now.leader_epoch if leader_epoch is None else leader_epoch,
            new_isr_with_epochs=[
                AlterPartitionRequest.BrokerState(broker_id=broker_id, broker_epoch=epochs.get(broker_id, -1))
                for broker_id in isr
            ],
            leader_recovery_state=recovery_state,
            partition_epoch=now.partition_epoch if partition_epoch is None else partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.epochs[sender],
            topics=[
                AlterPartitionRequest.TopicData(
                    topic_id=self.topic_id if topic_id is None else topic_id, partitions=[data]
                )
            ],
        )
        return self.send(request, AlterPartitionResponse).topics[0].partitions[0]

    def elect(self, kind: int) -> ElectLeadersResponse.PartitionResult:
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])],
        )
        return self.send(request, ElectLeadersResponse).replica_election_results[0].partition_result[0]

    def move(self, replicas: list[int] | None) -> AlterPartitionReassignmentsResponse:
        parts = AlterPartitionReassignmentsRequest
        request = parts(
            topics=[
                parts.ReassignableTopic(
                    name="t", partitions=[parts.ReassignablePartition(partition_index=0, replicas=replicas)]
                )
            ]
        )
        return self.send(request, AlterPartitionReassignmentsResponse)


def test_a_follower_replaces_a_fenced_leader() -> None:
    three = Three()
    three.fence(1)
    assert (three.partition.leader, three.partition.isr, three.partition.leader_epoch) == (2, (2, 3), 1)
    three.unfence(1)
    # It is no longer the leader and has to catch up before it is in sync again.
    assert (three.partition.leader, three.partition.isr) == (2, (2, 3))


def test_the_preferred_leader_is_restored() -> None:
    three = Three()
    three.fence(1)
    three.unfence(1)
    assert three.elect(0).error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert three.controller.balance_leaders() == []
    assert three.propose([2, 3, 1]).isr == [2, 3, 1]
    assert len(three.append(three.controller.balance_leaders())) == 1
    assert three.partition.leader == 1
    assert three.elect(0).error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_an_election_for_all_partitions_returns_only_those_that_needed_one() -> None:
    three = Three()
    three.fence(1)
    three.unfence(1)
    three.propose([2, 3, 1])
    everything = ElectLeadersRequest(election_type=0, topic_partitions=None)
    (result,) = three.send(everything, ElectLeadersResponse).replica_election_results
    assert [(partition.partition_id, partition.error_code) for partition in result.partition_result] == [
        (0, 0)
    ]
    (result,) = three.send(everything, ElectLeadersResponse).replica_election_results
    assert result.partition_result == []
    with pytest.raises(KafkaError, match="Unknown election type 7"):
        three.send(ElectLeadersRequest(election_type=7, topic_partitions=None), Message)


def test_without_eligible_leader_replicas_the_last_of_the_isr_stays_in_it() -> None:
    three = Three("3.9")
    for broker_id in (1, 2, 3):
        three.fence(broker_id)
    assert (three.partition.leader, three.partition.isr) == (NO_LEADER, (3,))
    three.unfence(1)
    assert three.partition.leader == NO_LEADER
    assert three.elect(0).error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert three.controller.elect_unclean_leaders() == []
    assert three.elect(1).error_code == 0
    assert (three.partition.leader, three.partition.isr) == (1, (1,))
    assert three.partition.leader_recovery_state == RECOVERING


def test_a_topic_may_allow_unclean_elections() -> None:
    three = Three("3.9", unclean_leader_election_enable="true")
    for broker_id in (1, 2, 3):
        three.fence(broker_id)
    assert three.partition.leader == NO_LEADER
    three.unfence(1)
    assert (three.partition.leader, three.partition.isr) == (1, (1,))


def test_a_replica_that_leaves_below_min_isr_stays_eligible() -> None:
    # KIP-966
    three = Three(min_insync_replicas="2")
    three.fence(3)
    assert (three.partition.isr, three.partition.elr) == ((1, 2), ())
    three.fence(2)
    assert (three.partition.isr, three.partition.elr) == ((1,), (2,))
    three.fence(1)
    assert (three.partition.isr, three.partition.elr) == ((), (1, 2))
    assert three.partition.last_known_elr == (1,)
    three.unfence(3)
    assert three.partition.leader == NO_LEADER
    three.unfence(2)
    assert (three.partition.leader, three.partition.isr, three.partition.elr) == (2, (2,), (1,))
    assert three.partition.leader_recovery_state == RECOVERED
    three.unfence(1)
    assert three.propose([2, 1]).error_code == 0
    assert (three.partition.isr, three.partition.elr) == ((2, 1), ())


def test_an_old_level_bumps_the_leader_epoch_when_the_isr_shrinks() -> None:
    for release, grows in [("3.5", 1), ("3.6", 0)]:
        three = Three(release)
        assert three.propose([1, 2], broker_epochs={}).leader_epoch == grows


def test_invalid_isr_proposals_are_rejected() -> None:
    # KIP-497, KIP-841, KIP-903
    three = Three()
    three.fence(3)
    three.unfence(3)
    now = three.partition
    refusals = [
        (three.propose([1, 2], leader_epoch=now.leader_epoch + 1), ErrorCode.NOT_CONTROLLER),
        (three.propose([1, 2], partition_epoch=now.partition_epoch + 1), ErrorCode.NOT_CONTROLLER),
        (three.propose([1, 2], leader_epoch=now.leader_epoch - 1), ErrorCode.FENCED_LEADER_EPOCH),
        (three.propose([1, 2], broker_id=2), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 2], partition_epoch=now.partition_epoch - 1), ErrorCode.INVALID_UPDATE_VERSION),
        (three.propose([]), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 1]), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 4]), ErrorCode.INVALID_REQUEST),
        (three.propose([2]), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 2], recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (three.propose([1], recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 3], broker_epochs={3: three.epochs[3] - 1}), ErrorCode.INELIGIBLE_REPLICA),
        (three.propose([1, 2], topic_id=Uuid(b"x" * 16)), ErrorCode.UNKNOWN_TOPIC_ID),
        (three.propose([1, 2], number=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [response.error_code for response, _ in refusals] == [code for _, code in refusals]
    assert three.partition == now
    three.fence(2)
    assert three.propose([1, 2]).error_code == ErrorCode.INELIGIBLE_REPLICA


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
