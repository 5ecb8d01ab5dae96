"""Controllers on a Raft quorum: the nodes, faults and changes of `raft_quorum`, with the metadata on top.

Each node has the controller and the image of production; brokers register and send heartbeats, a client
creates topics.  All of it, requests of clients too, are single messages: they are lost, late and duplicated,
which streams hide in `metadata_quorum`.
"""

from __future__ import annotations

from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.quorum.controller_clients import BrokerAsker, TopicsAsker
from barnabas.testing.simulation.quorum.controller_server import ControllerServer
from barnabas.testing.simulation.quorum.images import CommittedImages
from barnabas.testing.simulation.quorum.server import RaftServer
from barnabas.testing.simulation.registry import scenario
from barnabas.testing.simulation.scenarios.raft_quorum import MAX_BURST, VALUES, Run, live

FIRST_BROKER_ID = 20
CLIENT_ID = 30
BROKERS = 3
# Of the values that the client would write, one in as many is a topic.
TOPICS_ONE_IN = 2


class ControllerRun(Run):
    """One quorum of controllers, its brokers and its client."""

    program = ControllerServer

    def __init__(self, world: World) -> None:
        self.images = CommittedImages()
        super().__init__(world)
        del self.unsent[VALUES // TOPICS_ONE_IN :]
        self._brokers = [
            BrokerAsker(world, FIRST_BROKER_ID + number, self._nodes, FIRST_BROKER_ID + number)
            for number in range(BROKERS)
        ]
        self._client = TopicsAsker(world, CLIENT_ID, self._nodes, self.images, self._brokers)
        self.acknowledged = self._client.acknowledged

    def committed(self, server: RaftServer, high_watermark: int) -> None:
        super().committed(server, high_watermark)
        self.images.follow(self.checker.committed)

    def write(self) -> None:
        for _ in range(self.world.random.integer(1, MAX_BURST)):
            if self.unsent:
                self._client.create(self.unsent.pop(0))
        self._client.allocate()

    def is_settled(self) -> bool:
        """All topics are created, brokers are unfenced, and every node has the same image."""
        image = self.images.image
        fenced = [each.broker_id for each in self._brokers if not _is_live(image.brokers.get(each.broker_id))]
        return not fenced and self._client.is_idle and super().is_settled()

    def check_values(self) -> None:
        self._client.check()
        for server in self.running():
            assert isinstance(server, ControllerServer)
            self.images.check(f"n{server.node.id}", server.loader.image)
            if server.loader.image.offset != self.images.image.offset:
                raise InvariantError(f"n{server.node.id} is at offset {server.loader.image.offset}")


def _is_live(broker: object) -> bool:
    return not getattr(broker, "fenced", True)


@scenario("controller-quorum")
def controller_quorum(world: World) -> None:
    """Controllers answer only what is committed, and every node has the same image, whatever is lost."""
    live(world, ControllerRun(world))
