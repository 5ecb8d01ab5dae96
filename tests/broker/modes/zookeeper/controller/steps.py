"""What administrators, brokers and processes do in tests of the controller on a real ZooKeeper."""

from __future__ import annotations

from functools import partial

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.broker.modes.zookeeper.controller.nodes import Nodes
from tests.broker.modes.zookeeper.controller.recorded import Seen, comparable, is_compared, recorded_tree

# Deterministic: leaders are moved by the steps alone.
OPTIONS = {"auto.leader.rebalance.enable": "false"}


class Steps:
    """Does what the recording did, through the same requests and znodes."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.driver = nodes.driver
        self.client = self.driver.client()
        self.driver.run(self.client.start)
        for path in paths.PERSISTENT_PATHS:
            self.driver.run(partial(self.client.create, path, make_parents=True))

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.nodes.start(broker_id, options=OPTIONS)
        self.nodes.settle()

    def create(self, name: str, *assignment: list[int], **configs: str) -> None:
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsRequest.CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
                for number, replicas in enumerate(assignment)
            ],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        response = self.nodes.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert response.topics[0].error_code == 0, response  # type: ignore[attr-defined]

    def grow(self, name: str, count: int, *added: list[int]) -> None:
        topic = CreatePartitionsRequest.Topic(
            name=name,
            count=count,
            assignments=[CreatePartitionsRequest.Assignment(broker_ids=replicas) for replicas in added],
        )
        response = self.nodes.ask(
            CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False), 3
        )
        assert response.results[0].error_code == 0, response  # type: ignore[attr-defined]

    def reassign(self, name: str, number: int, replicas: list[int]) -> None:
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=number, replicas=replicas
        )
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[partition])
        response = self.nodes.ask(AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic]), 1)
        assert response.responses[0].partitions[0].error_code == 0, response  # type: ignore[attr-defined]

    def catch_up(self, name: str, number: int, isr: list[int]) -> None:
        """The leader proposes this ISR: its followers have caught up."""
        image = self.nodes.active().image
        topic = image.topic_named(name)
        assert topic is not None
        partition = topic.partitions[number]
        proposal = AlterPartitionRequest.PartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[
                AlterPartitionRequest.BrokerState(
                    broker_id=replica, broker_epoch=image.brokers[replica].epoch
                )
                for replica in isr
            ],
            partition_epoch=partition.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=image.brokers[partition.leader].epoch,
            topics=[AlterPartitionRequest.TopicData(topic_id=Uuid(topic.id), partitions=[proposal])],
        )
        response = self.nodes.ask(request, 3)
        assert isinstance(response, AlterPartitionResponse)
        assert response.topics[0].partitions[0].error_code == 0, response

    def wait_for_replicas(self, name: str, number: int, replicas: tuple[int, ...]) -> None:
        controller = self.nodes.active()

        def is_so() -> bool:
            topic = controller.image.topic_named(name)
            return topic is not None and topic.partitions[number].replicas == replicas

        self.driver.until(is_so)

    def wait_until_gone(self, name: str) -> None:
        controller = self.nodes.active()
        self.driver.until(lambda: name not in controller.image.topic_ids)

    def stop_gracefully(self, broker_id: int) -> None:
        controller = self.nodes.active()
        epoch = controller.image.brokers[broker_id].epoch
        response = self.nodes.ask(ControlledShutdownRequest(broker_id=broker_id, broker_epoch=epoch), 3)
        assert response.error_code == 0, response  # type: ignore[attr-defined]
        assert response.remaining_partitions == []  # type: ignore[attr-defined]
        self.kill(broker_id)

    def kill(self, broker_id: int) -> None:
        self.nodes.stop(broker_id)
        self.nodes.settle()

    def kill_and_start(self, broker_id: int) -> None:
        """The only broker: nobody is there to take over meanwhile."""
        self.nodes.stop(broker_id)
        self.start(broker_id)

    def delete(self, name: str) -> None:
        topic = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=ZERO_UUID)
        response = self.nodes.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=1000), 6)
        assert response.responses[0].error_code == 0, response  # type: ignore[attr-defined]

    def elect_preferred(self, name: str, number: int) -> None:
        topic = ElectLeadersRequest.TopicPartitions(topic=name, partitions=[number])
        request = ElectLeadersRequest(election_type=0, topic_partitions=[topic], timeout_ms=1000)
        response = self.nodes.ask(request, 2)
        assert response.error_code == 0, response  # type: ignore[attr-defined]

    def take_producer_ids(self, broker_id: int) -> int:
        epoch = self.nodes.active().image.brokers[broker_id].epoch
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
        first: int = self.nodes.ask(request, 0).producer_id_start  # type: ignore[attr-defined]
        return first

    def write(self, path: str, data: bytes) -> None:
        self.driver.run(lambda: self.client.create(path, data))

    def tree(self) -> dict[str, Seen]:
        """The compared znodes."""
        found: dict[str, Seen] = {}
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            for child in self.driver.run(partial(self.client.children, path)) or []:
                waiting.append(f"{path.rstrip('/')}/{child}")
            if is_compared(path):
                znode = self.driver.run(partial(self.client.get, path))
                if znode is not None:
                    data = None if znode.data is None else znode.data.decode()
                    found[path] = Seen(comparable(data), znode.stat.version)
        return found

    def becomes(self, step: str) -> None:
        """The znodes come to be those of the recording after this step."""
        expected = recorded_tree(step)
        for _ in range(200):
            found = self.tree()
            if found == expected:
                return
        different = sorted(
            path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path)
        )
        told = [f"{path}: {found.get(path)}, recorded {expected.get(path)}" for path in different]
        raise AssertionError(f"after {step}:\n" + "\n".join(told))
