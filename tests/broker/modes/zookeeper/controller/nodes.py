"""Nodes of a cluster on a real ZooKeeper, each with the controller and a stand-in for the rest of its broker.

The stand-ins carry out LeaderAndIsr, UpdateMetadata and StopReplica by remembering them; a test lets followers
catch up by asking the controller for AlterPartition as their leader does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.base.ids import Uuid
from barnabas.broker.modes.zookeeper.controller.zookeeper_controller import ZooKeeperController
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.broker_ids import BrokerRegistration
from barnabas.broker.peers.peer_connection import Done, MakeRequest, PeerError
from barnabas.config.node.node import parse_node
from barnabas.metadata.cluster import Endpoint
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.network import Address
from barnabas.runtime.random import SystemRandom
from barnabas.runtime.zookeeper.client import Create, SetData, ZooKeeperClient
from tests.runtime.zookeeper.drivers import SESSION_MS, RealDriver

FIRST_PORT = 19_000
Key = tuple[str, int]


class StandIn:
    """What a broker remembers of what the controller told it."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.is_up = True
        self.received: list[Message] = []
        self.led: dict[Key, LeaderAndIsrRequest.PartitionState] = {}
        self.known: dict[Key, UpdateMetadataRequest.PartitionState] = {}
        self.live: set[int] = set()
        # Replicas in a log directory that has failed.
        self.lost: set[Key] = set()

    def answer(self, message: Message) -> Message:
        self.received.append(message)
        if isinstance(message, LeaderAndIsrRequest):
            return self._leader_and_isr(message)
        if isinstance(message, UpdateMetadataRequest):
            self.live = {broker.id for broker in message.live_brokers}
            for topic in message.topic_states:
                for state in topic.partition_states:
                    self.known[topic.topic_name, state.partition_index] = state
            return UpdateMetadataResponse(error_code=0)
        assert isinstance(message, StopReplicaRequest)
        errors = []
        for stopped in message.topic_states:
            for each in stopped.partition_states:
                self.led.pop((stopped.topic_name, each.partition_index), None)
                errors.append(
                    StopReplicaResponse.PartitionError(
                        topic_name=stopped.topic_name, partition_index=each.partition_index, error_code=0
                    )
                )
        return StopReplicaResponse(error_code=0, partition_errors=errors)

    def _leader_and_isr(self, message: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        topics = []
        for topic in message.topic_states:
            errors = []
            for state in topic.partition_states:
                key = (topic.topic_name, state.partition_index)
                self.led[key] = state
                errors.append(
                    LeaderAndIsrResponse.PartitionError(
                        partition_index=state.partition_index, error_code=56 if key in self.lost else 0
                    )
                )
            topics.append(
                LeaderAndIsrResponse.TopicError(topic_id=Uuid(topic.topic_id), partition_errors=errors)
            )
        return LeaderAndIsrResponse(error_code=0, topics=topics)


class StandInPeers:
    """Connections to stand-ins, by port."""

    def __init__(self, brokers: dict[int, StandIn], post: Callable[[Callable[[], None]], None]) -> None:
        self._brokers = brokers
        self._post = post

    def send(
        self,
        address: Address,
        key: int,
        make: MakeRequest,
        done: Done,
        timeout_ms: int,
        highest: int | None = None,
        *,
        in_place: bool = False,
    ) -> None:
        def carry_out() -> None:
            broker = self._brokers[address.port - FIRST_PORT]
            if broker.is_up:
                done(broker.answer(make(8)), None)
            else:
                done(None, PeerError("it is down"))

        self._post(carry_out)


class Nodes:
    """Nodes that are started and stopped one by one."""

    def __init__(self, driver: RealDriver) -> None:
        self.driver = driver
        # Called with each new client, which has not been used yet.
        self.on_client: Callable[[ZooKeeperClient], None] = lambda _: None
        self.clients: dict[int, ZooKeeperClient] = {}
        self.controllers: dict[int, ZooKeeperController] = {}
        self.brokers: dict[int, StandIn] = {}

    @property
    def reactor(self):  # type: ignore[no-untyped-def]
        return self.driver._thread.reactor

    def start(
        self, broker_id: int, session_timeout_ms: int = SESSION_MS, options: Mapping[str, str] | None = None
    ) -> None:
        """A process with its session: registered, then in elections."""
        client = self.clients[broker_id] = self.driver.client(session_timeout_ms)
        self.on_client(client)
        self.driver.run(client.start)
        self.driver.run(lambda: client.transact(_registration(broker_id)))
        broker = self.brokers[broker_id] = StandIn(broker_id)
        node = parse_node(
            {
                "broker.id": str(broker_id),
                "zookeeper.connect": "unused:1",
                "listeners": f"PLAINTEXT://localhost:{FIRST_PORT + broker_id}",
                "log.dirs": "/nowhere",
                **(options or {}),
            }
        )
        controller = self.controllers[broker_id] = ZooKeeperController(
            node,
            client,
            clock=SystemClock(),
            random=SystemRandom(),
            timers=self.reactor.timers,
            peers=StandInPeers(self.brokers, self.reactor.post),  # type: ignore[arg-type]
            deliver=lambda message: Promise.of(broker.answer(message)),
            on_controller_change=lambda _: None,
            on_failure=lambda error: None,
        )
        self.driver.run(controller.start)

    def stop(self, broker_id: int) -> None:
        """The process ends, and its session with it."""
        self.brokers[broker_id].is_up = False
        self.driver.run(self.controllers.pop(broker_id).stop)
        self.driver.run(self.clients.pop(broker_id).close)

    def end(self) -> None:
        for broker_id in list(self.controllers):
            self.stop(broker_id)

    def active(self) -> ZooKeeperController:
        """The active controller, once there is one."""

        def find() -> ZooKeeperController | None:
            return next((each for each in self.controllers.values() if each.active_epoch is not None), None)

        self.driver.until(lambda: find() is not None)
        found = self.driver.call(find)
        assert found is not None
        return found

    def settle(self) -> ZooKeeperController:
        """Once the active controller knows all brokers that are up; returns it."""
        controller = self.active()
        up = {broker_id for broker_id, broker in self.brokers.items() if broker.is_up}
        self.driver.until(lambda: set(controller.image.brokers) == up)
        return controller

    def ask(self, request: Message, version: int) -> Message:
        controller = self.active()
        return self.driver.run(lambda: controller.ask(request, version, "User:ANONYMOUS"))


def _registration(broker_id: int) -> list[Create | SetData]:
    path = paths.broker(broker_id)
    endpoint = Endpoint("PLAINTEXT", "localhost", FIRST_PORT + broker_id, 0)
    return [
        Create(path, ephemeral=True),
        SetData(path, BrokerRegistration((endpoint,), timestamp_ms=1).encode()),
    ]
