"""The nodes of a simulated cluster on ZooKeeper: session, controller, and a stand-in for the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.base.errors import KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.zookeeper.controller.zookeeper_controller import ZooKeeperController
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.broker_ids import BrokerRegistration
from barnabas.broker.peers.peer_connection import Done, MakeRequest, PeerError
from barnabas.config.node.node import parse_node
from barnabas.metadata.cluster import Endpoint
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.network import Address
from barnabas.runtime.simulated.ensemble.ensemble import SimulatedEnsemble
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.runtime.zookeeper.client import (
    Create,
    OperationResult,
    SessionState,
    SetData,
    Stat,
    ZooKeeperClient,
)
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.testing.simulation.scenarios.zookeeper.stand_in_broker import (
    ALTER_PARTITION_VERSION,
    StandInBroker,
)
from barnabas.testing.simulation.scenarios.zookeeper.witness import Witness

FIRST_PORT = 9_000
SESSION_MS = 3_000
RETRY_NS = 200 * NS_PER_MS
# How often a broker looks for replicas that have caught up.
PROPOSE_NS = 250 * NS_PER_MS
ANSWER_TIMEOUT_NS = 1_500 * NS_PER_MS
# The highest version of any request to a broker; requests are passed as objects.
ANY_VERSION = 8
NO_PRINCIPAL = "User:ANONYMOUS"


class ZooKeeperNode:
    """One machine, and what its process consists of at the moment."""

    def __init__(
        self,
        world: World,
        ensemble: SimulatedEnsemble,
        witness: Witness,
        nodes: Mapping[int, ZooKeeperNode],
        node_id: int,
    ) -> None:
        self.world = world
        self.id = node_id
        self.broker = StandInBroker(node_id)
        self.controller: ZooKeeperController | None = None
        self.has_failed: BaseException | None = None
        self._ensemble = ensemble
        self._witness = witness
        self.nodes = nodes
        self._client: ZooKeeperClient | None = None
        self._is_connecting = False
        self.node: Node = world.add_node(node_id, self._boot)

    # The process

    def _boot(self, node: Node) -> None:
        self.broker = StandInBroker(self.id)
        self._is_connecting = False
        options = ZooKeeperOptions("zookeeper/kafka", SESSION_MS, connection_timeout_ms=SESSION_MS)
        client = self._client = self._ensemble.client(node, options)
        given = {
            "broker.id": str(self.id),
            "zookeeper.connect": "zookeeper:2181/kafka",
            "listeners": f"PLAINTEXT://node-{self.id}:{FIRST_PORT + self.id}",
            "log.dirs": "/data",
        }
        self.controller = ZooKeeperController(
            parse_node(given),
            client,
            clock=node.clock,
            random=node.random,
            timers=node.timers,
            peers=_Peers(self, node),  # type: ignore[arg-type]  # the calls that are used
            deliver=lambda request: Promise.of(self._carried_out(request)),
            on_controller_change=lambda _: None,
            on_failure=self._failed,
        )
        client.on_state(self._session_changed)
        self._connect(node.life)
        node.after(PROPOSE_NS, self._propose)

    def _failed(self, error: BaseException) -> None:
        self.has_failed = error
        raise InvariantError(f"the controller of node {self.id} failed: {error!r}")

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            assert self.controller is not None, "it is made before the session"
            self.controller.session_lost()
            self._connect(self.node.life)

    def _connect(self, life: int) -> None:
        assert self._client is not None, "it is made at the boot"
        if self._is_connecting:
            return
        self._is_connecting = True

        def connected(_: None) -> None:
            self._is_connecting = False
            self._register(life)

        def failed(_: BaseException) -> None:
            self._is_connecting = False
            self._later(life, partial(self._connect, life))

        self._client.start().then(connected, failed)

    def _register(self, life: int) -> None:
        """A broker that comes back before its old session has ended waits for that."""
        assert self._client is not None, "it is made at the boot"
        path = paths.broker(self.id)
        endpoint = Endpoint("PLAINTEXT", f"node-{self.id}", FIRST_PORT + self.id, 0)
        data = BrokerRegistration((endpoint,)).encode()
        again = partial(self._later, life, partial(self._register, life))
        self._client.transact([Create(path, ephemeral=True), SetData(path, data, 0)]).then(
            self._registered, lambda _: again()
        )

    def _registered(self, results: list[OperationResult]) -> None:
        stat = results[1]
        assert isinstance(stat, Stat), "the second operation sets data"
        assert self.controller is not None, "it is made at the boot"
        self.broker.broker_epoch = stat.czxid
        self.controller.start()

    def _later(self, life: int, action: Callable[[], None]) -> None:
        if life == self.node.life:
            self.node.after(RETRY_NS, partial(self._unless_registered, action))

    def _unless_registered(self, action: Callable[[], None]) -> None:
        client = self._client
        if client is not None and self._ensemble.open_sessions().get(client.session_id) == self.id:
            path = f"/kafka{paths.broker(self.id)}"
            found = self._ensemble.tree.znodes.get(path)
            if found is not None and found.owner == client.session_id:
                # It was carried out, and the answer lost.
                self.broker.broker_epoch = found.czxid
                assert self.controller is not None, "it is made at the boot"
                self.controller.start()
                return
        if client is not None and client.state is SessionState.EXPIRED:
            self._connect(self.node.life)
            return
        if not self._is_connecting:
            action()

    # The broker

    def _carried_out(self, request: Message) -> Message:
        self._witness.told(request)
        return self.broker.carry_out(request)

    def receive(self, request: Message) -> Message:
        """From a controller elsewhere."""
        return self._carried_out(request)

    def _propose(self) -> None:
        self.node.after(PROPOSE_NS, self._propose)
        request = self.broker.proposal()
        if request is not None and self.controller is not None:
            self.ask(self.controller.controller_id, request, ALTER_PARTITION_VERSION, self.broker.altered)

    def ask(self, broker_id: int, request: Message, version: int, done: Callable[[Message], None]) -> None:
        """Ask the controller on that node; `done` is called with its answer, or never."""
        target = self.nodes.get(broker_id)
        if target is None:
            return
        links, life = self.world.links, self.node.life

        def answered(response: Message) -> None:
            self.world.agenda.after(links.delay_ns(), partial(self.node.enter, life, partial(done, response)))

        def arrive() -> None:
            controller = target.controller
            if controller is not None and controller.active_epoch is not None:
                controller.ask(request, version, NO_PRINCIPAL).then(answered, _ignore)

        self.world.agenda.after(links.delay_ns(), partial(target.node.enter, target.node.life, arrive))


def _ignore(error: BaseException) -> None:
    if not isinstance(error, KafkaError):
        raise error


class _Peers:
    """Connections to the stand-ins of other nodes: in order, but slow, and lost with what was sent."""

    def __init__(self, sender: ZooKeeperNode, node: Node) -> None:
        self._sender = sender
        self._node = node
        self._life = node.life
        # Of each connection: its number, and when the last request on it arrives.
        self._connections: dict[int, tuple[int, int]] = {}

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
        world, target_id = self._sender.world, address.port - FIRST_PORT
        target = self._sender.nodes[target_id]
        request = make(ANY_VERSION)
        is_open = True
        number, last_ns = self._connections.get(target_id, (0, 0))

        def settle(answer: Message | None, error: Exception | None) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                done(answer, error)

        def arrive() -> None:
            if self._connections[target_id][0] == number:
                answer = target.receive(request)
                if not _is_lost(world):
                    back = partial(self._node.enter, self._life, partial(settle, answer, None))
                    world.agenda.after(world.links.delay_ns(), back)

        def give_up() -> None:
            if is_open:
                self._connections[target_id] = (number + 1, 0)
                settle(None, PeerError("no answer in time"))

        arrival_ns = max(last_ns, world.now_ns + world.links.delay_ns())
        self._connections[target_id] = (number, arrival_ns)
        if not _is_lost(world):
            life = target.node.life
            delay_ns = arrival_ns - world.now_ns
            world.agenda.after(delay_ns, partial(target.node.enter, life, arrive))
        world.agenda.after(ANSWER_TIMEOUT_NS, partial(self._node.enter, self._life, give_up))


def _is_lost(world: World) -> bool:
    loss = world.links.faults.loss
    return bool(loss) and world.random.fraction() < loss
