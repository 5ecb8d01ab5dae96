"""What the simulated clients share: a node, connections, and what they know of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.base.ids import Uuid
from barnabas.broker.peers.peers import Peers
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Partition
from barnabas.protocol.schema import Message
from barnabas.runtime.network.network import Address
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.network import host_name
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.simulation.metadata_cluster.reference import ReferenceLog
from barnabas.testing.simulation.metadata_cluster.server import CLIENT_PORT, ClusterServer
from barnabas.testing.simulation.replicated_cluster.history import PartitionHistory

Done = Callable[[Message | None], None]


class Cluster(Protocol):
    """What clients know of the simulated cluster."""

    world: World
    reference: ReferenceLog
    servers: Sequence[ClusterServer]

    def violated(self, violation: InvariantError) -> None: ...

    def history(self, name: str, topic_id: Uuid, index: int) -> PartitionHistory: ...


class ClusterClient:
    """A client on a machine of its own; after a crash it starts again without memory."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.id = node_id
        self.is_active = True
        self.cluster = cluster
        self.random: SeededRandom = cluster.world.random_for(f"client {node_id}")
        self.name = f"{type(self).__name__.lower()} {node_id}"
        self._peers: Peers | None = None
        self.node: Node
        cluster.world.add_node(node_id, self._boot)

    def _boot(self, node: Node) -> None:
        self.node = node
        self._peers = self.connections()
        self.started()

    def connections(self) -> Peers:
        """Connections of their own: on each, a broker serves one request after the other."""
        node = self.node
        return Peers(
            self.name.replace(" ", "-"),
            network=node.network,
            clock=node.clock,
            timers=node.timers,
            random=node.random,
        )

    def started(self) -> None:
        """Called at every start."""
        raise NotImplementedError

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Within twice this time."""
        self.node.after(self.random.integer(1, 2 * delay_ns), action)

    # The cluster

    def image(self) -> Image:
        """What some node knows, which may be old: the response to a Metadata request."""
        servers = self.cluster.servers
        image = servers[self.random.integer(0, len(servers) - 1)].image
        return self.cluster.reference.image if image is None else image

    def exists(self, topic_id: Uuid) -> bool:
        return topic_id in self.cluster.reference.image.topics

    def partitions(self) -> list[tuple[str, Uuid, int, Partition]]:
        """Every partition of topics for clients, by name."""
        image = self.image()
        return [
            (name, topic_id, index, image.topics[topic_id].partitions[index])
            for name, topic_id in sorted(image.topic_ids.items())
            if not name.startswith("__")
            for index in sorted(image.topics[topic_id].partitions)
        ]

    def send(
        self,
        broker_id: int,
        key: int,
        request: Message,
        done: Done,
        timeout_ms: int,
        highest: int | None = None,
        peers: Peers | None = None,
    ) -> None:
        """Called with the response, or None if there is none."""
        peers = self._peers if peers is None else peers
        assert peers is not None, "it has started"
        address = Address(host_name(broker_id), CLIENT_PORT)
        peers.send(address, key, lambda _: request, lambda message, _: done(message), timeout_ms, highest)

    def any_broker(self) -> int:
        brokers = [server.id for server in self.cluster.servers if server.is_broker]
        return brokers[self.random.integer(0, len(brokers) - 1)]

    def violate(self, reason: str) -> None:
        self.cluster.violated(InvariantError(f"{self.name}: {reason}"))
