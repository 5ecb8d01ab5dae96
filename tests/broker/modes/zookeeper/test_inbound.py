"""LeaderAndIsr, UpdateMetadata and StopReplica on the wire, sent by a controller that this file plays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.cluster import ControllerRegistration
from barnabas.broker.modes.zookeeper.znodes.configs import encode_configs
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.broker.worlds.zookeeper_world import HOST, ZooKeeperBrokers

CONTROLLER = 99
TOPIC_ID, OTHER_ID = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")


class PlayedController:
    """Holds /controller, so that no broker is elected, and sends what a test says."""

    def __init__(self, brokers: ZooKeeperBrokers) -> None:
        self._brokers = brokers
        self.zookeeper = brokers.client()
        held = ControllerRegistration(CONTROLLER, 1).encode()
        brokers.run(lambda: self.zookeeper.create(paths.CONTROLLER, held, ephemeral=True, make_parents=True))
        self.epoch = 5

    @property
    def broker_epoch(self) -> int:
        return self._brokers.brokers[1].broker_epoch

    def leader_and_isr(
        self,
        *states: LeaderAndIsrRequest.PartitionState,
        topic: str = "orders",
        topic_id: Uuid = TOPIC_ID,
        broker_epoch: int | None = None,
        version: int = 7,
    ) -> LeaderAndIsrResponse:
        request = LeaderAndIsrRequest(
            controller_id=CONTROLLER,
            controller_epoch=self.epoch,
            broker_epoch=self.broker_epoch if broker_epoch is None else broker_epoch,
            topic_states=[
                LeaderAndIsrRequest.TopicState(
                    topic_name=topic, topic_id=topic_id, partition_states=list(states)
                )
            ],
            live_leaders=[],
        )
        response: LeaderAndIsrResponse = self._brokers.ask(1, request, version)
        return response

    def update_metadata(
        self,
        *states: UpdateMetadataRequest.PartitionState,
        brokers: tuple[int, ...] = (1, 2),
        topic: str = "orders",
    ) -> ErrorCode:
        port = self._brokers.port(1)
        request = UpdateMetadataRequest(
            controller_id=CONTROLLER,
            controller_epoch=self.epoch,
            broker_epoch=self.broker_epoch,
            topic_states=[
                UpdateMetadataRequest.TopicState(
                    topic_name=topic, topic_id=TOPIC_ID, partition_states=list(states)
                )
            ],
            live_brokers=[
                UpdateMetadataRequest.Broker(
                    id=broker_id,
                    endpoints=[
                        UpdateMetadataRequest.Endpoint(
                            port=port + broker_id - 1, host=HOST, listener="PLAINTEXT", security_protocol=0
                        )
                    ],
                    rack=f"rack-{broker_id}",
                )
                for broker_id in brokers
            ],
        )
        return ErrorCode(self._brokers.ask(1, request, 8).error_code)

    def stop_replica(
        self, number: int, *, leader_epoch: int, delete: bool = True, topic: str = "orders"
    ) -> ErrorCode:
        state = StopReplicaRequest.PartitionState(
            partition_index=number, leader_epoch=leader_epoch, delete_partition=delete
        )
        request = StopReplicaRequest(
            controller_id=CONTROLLER,
            controller_epoch=self.epoch,
            broker_epoch=self.broker_epoch,
            topic_states=[StopReplicaRequest.TopicState(topic_name=topic, partition_states=[state])],
        )
        response: StopReplicaResponse = self._brokers.ask(1, request, 4)
        if response.error_code:
            return ErrorCode(response.error_code)
        return ErrorCode(response.partition_errors[0].error_code)


def assigned(
    number: int = 0,
    *,
    leader: int = 1,
    leader_epoch: int = 0,
    replicas: tuple[int, ...] = (1,),
    is_new: bool = True,
) -> LeaderAndIsrRequest.PartitionState:
    return LeaderAndIsrRequest.PartitionState(
        partition_index=number,
        controller_epoch=5,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(replicas),
        partition_epoch=0,
        replicas=list(replicas),
        is_new=is_new,
    )


def shown(
    number: int = 0,
    *,
    leader: int = 1,
    leader_epoch: int = 0,
    replicas: tuple[int, ...] = (1,),
    isr: tuple[int, ...] | None = None,
    offline: tuple[int, ...] = (),
    zk_version: int = 0,
) -> UpdateMetadataRequest.PartitionState:
    return UpdateMetadataRequest.PartitionState(
        partition_index=number,
        controller_epoch=5,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(replicas if isr is None else isr),
        zk_version=zk_version,
        replicas=list(replicas),
        offline_replicas=list(offline),
    )


@pytest.fixture
def world(zookeeper_connect: str) -> Iterator[tuple[ZooKeeperBrokers, PlayedController]]:
    # Nobody tells the broker of the cluster before it has registered: it does not wait for long.
    # Its controller answers no request.
    options = {"zookeeper.session.timeout.ms": 2000, "controlled.shutdown.enable": "false"}
    brokers = ZooKeeperBrokers(zookeeper_connect, 0, options)
    with brokers:
        controller = PlayedController(brokers)
        brokers.start_broker(1)
        yield brokers, controller


def error_of(response: LeaderAndIsrResponse) -> ErrorCode:
    if response.error_code:
        return ErrorCode(response.error_code)
    return ErrorCode(response.topics[0].partition_errors[0].error_code)


def test_a_broker_has_started_when_it_has_heard_of_the_topics(zookeeper_connect: str) -> None:
    """A new controller announces the brokers alone first, as Apache Kafka's does."""
    with ZooKeeperBrokers(zookeeper_connect, 0, {"controlled.shutdown.enable": "false"}) as brokers:
        controller = PlayedController(brokers)
        topic = paths.topic("orders")
        brokers.run(lambda: controller.zookeeper.create(topic, b"{}", make_parents=True))
        broker = brokers.call(lambda: brokers.make(1))
        brokers.brokers[1] = broker
        started = brokers.call(broker.start)
        brokers.until(lambda: broker.broker_epoch > 0)
        assert controller.update_metadata() is ErrorCode.NONE
        assert brokers.call(lambda: 1 in broker.image.brokers)
        assert not brokers.call(lambda: started.done)
        assert controller.update_metadata(shown()) is ErrorCode.NONE
        brokers.until(lambda: started.done)
        assert broker.image.topic_named("orders") is not None


def test_a_partition_is_led_and_deleted(world: tuple[ZooKeeperBrokers, PlayedController]) -> None:
    # M-B5
    brokers, controller = world
    response = controller.leader_and_isr(assigned())
    assert error_of(response) is ErrorCode.NONE
    assert response.topics[0].topic_id == TOPIC_ID
    hosted = brokers.call(lambda: brokers.brokers[1].replicas.find("orders", 0))
    assert hosted.is_leader and hosted.topic_id == TOPIC_ID
    # The brokers of the cluster may come later than the leaders.
    assert controller.update_metadata(shown()) is ErrorCode.NONE
    described = brokers.ask(1, MetadataRequest(topics=None), 12)
    assert described.controller_id == CONTROLLER
    assert [broker.node_id for broker in described.brokers] == [1, 2]
    assert [topic.name for topic in described.topics] == ["orders"]
    # The same again is a repetition.
    assert error_of(controller.leader_and_isr(assigned())) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert controller.update_metadata(shown(leader=-2)) is ErrorCode.NONE
    assert brokers.ask(1, MetadataRequest(topics=None), 12).topics == []
    assert brokers.call(lambda: brokers.brokers[1].replicas.find("orders", 0)).is_leader
    assert controller.stop_replica(0, leader_epoch=-2) is ErrorCode.NONE
    assert brokers.call(lambda: list(brokers.brokers[1].replicas.partitions)) == []
    names = brokers.call(lambda: brokers.disks[1].names("/data"))
    assert any(name.startswith("orders-0.") and name.endswith("-delete") for name in names)
    # To delete what is not there is no error.
    assert controller.stop_replica(0, leader_epoch=-2) is ErrorCode.NONE


def test_the_errors_of_partitions_are_apache_kafkas(
    world: tuple[ZooKeeperBrokers, PlayedController],
) -> None:
    # M-B5
    _, controller = world
    assert error_of(controller.leader_and_isr(assigned(leader_epoch=3))) is ErrorCode.NONE
    not_here = controller.leader_and_isr(assigned(1, leader=2, replicas=(2, 3)))
    assert error_of(not_here) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    older = controller.leader_and_isr(assigned(leader_epoch=2))
    assert error_of(older) is ErrorCode.STALE_CONTROLLER_EPOCH
    other = controller.leader_and_isr(assigned(leader_epoch=4), topic_id=OTHER_ID)
    assert error_of(other) is ErrorCode.INCONSISTENT_TOPIC_ID
    without_id = controller.leader_and_isr(assigned(), topic="old", topic_id=Uuid())
    assert error_of(without_id) is ErrorCode.UNKNOWN_TOPIC_ID
    assert controller.stop_replica(0, leader_epoch=2) is ErrorCode.FENCED_LEADER_EPOCH
    by_name = controller.leader_and_isr(assigned(leader_epoch=2), version=4)
    assert by_name.topics == []


def test_older_controllers_and_registrations_are_fenced(
    world: tuple[ZooKeeperBrokers, PlayedController],
) -> None:
    # cluster.md 25
    # M-B3
    brokers, controller = world
    assert controller.update_metadata() is ErrorCode.NONE
    stale = controller.leader_and_isr(assigned(), broker_epoch=controller.broker_epoch - 1)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    # A later epoch is of a registration whose answer is still under way to this broker.
    early = controller.leader_and_isr(assigned(), broker_epoch=controller.broker_epoch + 1)
    assert error_of(early) is ErrorCode.NONE
    controller.epoch = 4
    assert controller.update_metadata(shown()) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert controller.leader_and_isr(assigned(1)).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert controller.stop_replica(0, leader_epoch=-2) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert list(brokers.call(lambda: brokers.brokers[1].replicas.partitions)) == [("orders", 0)]


def test_update_metadata_is_what_clients_see(world: tuple[ZooKeeperBrokers, PlayedController]) -> None:
    # M-B5
    brokers, controller = world
    controller.update_metadata(
        shown(leader=2, replicas=(2, 1), offline=(1,)), shown(1, leader=-1, replicas=(2,), leader_epoch=7)
    )
    metadata = brokers.ask(1, MetadataRequest(topics=None), 12)
    first, second = metadata.topics[0].partitions
    assert (first.leader_id, first.replica_nodes, first.offline_replicas) == (2, [2, 1], [1])
    assert (second.error_code, second.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, 7)
    assert [broker.rack for broker in metadata.brokers] == ["rack-1", "rack-2"]
    # Brokers that are not in a request are not alive; partitions that are not in it are as they were.
    controller.update_metadata(brokers=(1,))
    metadata = brokers.ask(1, MetadataRequest(topics=None), 12)
    assert [broker.node_id for broker in metadata.brokers] == [1]
    first, _ = metadata.topics[0].partitions
    assert (first.error_code, first.offline_replicas) == (ErrorCode.LEADER_NOT_AVAILABLE, [2, 1])
    # Nothing that it says makes a replica.
    assert list(brokers.call(lambda: brokers.brokers[1].replicas.partitions)) == []
    controller.update_metadata(brokers=(1, 2))
    cluster = brokers.ask(1, DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    assert [broker.broker_id for broker in cluster.brokers] == [1, 2]


def test_a_leader_learns_an_isr_that_it_missed(world: tuple[ZooKeeperBrokers, PlayedController]) -> None:
    brokers, controller = world
    controller.leader_and_isr(assigned(replicas=(1, 2)))
    hosted = brokers.call(lambda: brokers.brokers[1].replicas.find("orders", 0))
    assert hosted.isr == {1, 2}
    controller.update_metadata(shown(replicas=(1, 2), isr=(1,), zk_version=1))
    assert (hosted.isr, hosted.partition_epoch, hosted.leader_epoch) == ({1}, 1, 0)


def test_the_options_of_a_new_topic_come_with_it(
    world: tuple[ZooKeeperBrokers, PlayedController],
) -> None:
    """Nobody announces them: they are written before the topic is."""
    brokers, controller = world
    options = encode_configs({"retention.ms": "1234", "min.insync.replicas": "2"})
    path = paths.topic_config("orders")
    brokers.run(lambda: controller.zookeeper.create(path, options, make_parents=True))
    controller.leader_and_isr(assigned())
    log = brokers.call(lambda: brokers.brokers[1].replicas.find("orders", 0).log)
    assert log is not None and log.options.retention_ms == 1234
    resource = DescribeConfigsRequest.Resource(
        resource_type=2, resource_name="orders", configuration_keys=["min.insync.replicas"]
    )
    (result,) = brokers.ask(1, DescribeConfigsRequest(resources=[resource]), 4).results
    assert [entry.value for entry in result.configs] == ["2"]
