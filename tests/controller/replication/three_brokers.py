"""A cluster of three brokers with one partition."""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.metadata.topics import Partition
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.testing.simulation.metadata_node import heartbeat, registration
from tests.controller.lab import Lab

SESSION_S = 9


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
        self._incarnation = 1

    @property
    def partition(self) -> Partition:
        return self.image.topics[self.topic_id].partitions[0]

    def fence(self, broker_id: int) -> None:
        request = heartbeat(self.epochs[broker_id], self.end_offset, broker_id=broker_id, want_fence=True)
        self.send(request, BrokerHeartbeatResponse)

    def unfence(self, broker_id: int) -> None:
        request = heartbeat(self.epochs[broker_id], self.end_offset, broker_id=broker_id)
        self.send(request, BrokerHeartbeatResponse)

    def crash(self, broker_id: int) -> None:
        """The broker's session expires, and its next process registers after an unclean shutdown."""
        self.fence(broker_id)
        self.restart(broker_id)

    def restart(self, broker_id: int, *, clean: bool = False) -> None:
        """A new process of a fenced broker registers; `clean` if the last one could finish its shutdown."""
        self._incarnation += 1
        self.wait(SESSION_S + 1)  # The session of the last process is over, those of the others are not.
        for other, epoch in self.epochs.items():
            if other != broker_id and self.controller.state.is_active(other):
                self.send(heartbeat(epoch, self.end_offset, broker_id=other), BrokerHeartbeatResponse)
        previous = self.epochs[broker_id] if clean else -1
        request = registration(self._incarnation, broker_id=broker_id, previous_epoch=previous)
        self.epochs[broker_id] = self.send(request, BrokerRegistrationResponse).broker_epoch

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

    def assign(self, broker_id: int, directory: Uuid) -> None:
        """A broker reports in which log directory the partition is (KIP-858)."""
        parts = AssignReplicasToDirsRequest
        topic = parts.TopicData(topic_id=self.topic_id, partitions=[parts.PartitionData(partition_index=0)])
        request = parts(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            directories=[parts.DirectoryData(id=directory, topics=[topic])],
        )
        assert not self.send(request, AssignReplicasToDirsResponse).error_code

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
