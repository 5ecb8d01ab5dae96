"""All nodes of a cluster of the kit, and the links between them.

Everything runs on the reactor's thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from barnabas.broker.modes.kraft.kraft_metadata import KraftMetadata
from barnabas.config.option import Mode
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.free_port import free_ports
from barnabas.testing.kit.node.node import ZOOKEEPER_PORT, KitNode, State, Surroundings
from barnabas.testing.kit.node.services import Gate
from barnabas.testing.kit.profile import FIRST_CONTROLLER_ID, HOST

# Links to the ensemble, which is no node.
ZOOKEEPER_ID = -1


class Layout(NamedTuple):
    """What a cluster consists of.  In ZooKeeper mode the brokers are the controllers."""

    brokers: int
    controllers: int
    first_id: int
    mode: Mode


class Nodes:
    """The controllers and brokers of one cluster."""

    def __init__(self, layout: Layout, around: Surroundings, options: Mapping[str, str]) -> None:
        self.around = around
        self._links: dict[frozenset[int], Gate] = {}
        roles: list[tuple[int, str]] = []
        if layout.mode is Mode.KRAFT:
            roles = [(FIRST_CONTROLLER_ID + number, "controller") for number in range(layout.controllers)]
        roles += [(layout.first_id + number, "broker") for number in range(layout.brokers)]
        self.by_id = {
            node_id: KitNode(node_id, role, around, options, self._link_to(node_id))
            for node_id, role in roles
        }

    @property
    def controllers(self) -> list[KitNode]:
        return [node for node in self.by_id.values() if not node.is_broker]

    @property
    def brokers(self) -> list[KitNode]:
        return [node for node in self.by_id.values() if node.is_broker]

    @property
    def candidates(self) -> list[KitNode]:
        """Those that may be the active controller; in ZooKeeper mode these are the brokers."""
        return self.controllers or self.brokers

    @property
    def active_controller(self) -> KitNode | None:
        """The controller that decides, as far as it knows, or as ZooKeeper says."""
        candidates, ensemble = self.candidates, self.around.ensemble
        if ensemble is not None:
            candidates = [node for node in candidates if node.id == ensemble.controller_id]
        return next((node for node in candidates if node.is_up and node.broker.metadata.is_active), None)

    def start(self) -> Promise[None]:
        """Done when all brokers serve clients."""
        if len(self.controllers) > 1:
            # Each must know the others' ports before it starts.
            for node, port in zip(self.controllers, free_ports(HOST, len(self.controllers)), strict=True):
                node.port = port
        return all_done([self.start_controllers(), self.start_brokers()])

    def start_controllers(self) -> Promise[None]:
        return all_done(self.start_node(node) for node in self.controllers)

    def start_brokers(self) -> Promise[None]:
        return all_done(self.start_node(node) for node in self.brokers)

    def start_node(self, node: KitNode) -> Promise[None]:
        return node.start(",".join(f"{each.id}@{HOST}:{each.port}" for each in self.controllers))

    def stop(self) -> Promise[None]:
        """The controllers last: the brokers are still heard."""
        done: Promise[None] = Promise()

        def brokers_stopped(_: None) -> None:
            stopping = all_done(node.stop(hand_over=False) for node in self.controllers if node.is_up)
            stopping.then(done.set, done.fail)

        up = [node for node in self.brokers if node.is_up]
        for node in up:
            # Leaders that vanish are nothing to warn of now.
            node.stop_fetching()
        all_done(node.stop(hand_over=False) for node in up).then(brokers_stopped, done.fail)
        return done

    def kill_all(self) -> None:
        """After a start or stop that failed: nothing is left running."""
        for node in self.by_id.values():
            if node.is_up:
                node.kill()

    def fence(self, broker_id: int) -> None:
        """The broker's session is taken as expired: the controller fences it at its next look."""
        if self.around.ensemble is not None:
            self.around.ensemble.expire(broker_id)
            return
        controller = self.active_controller
        if controller is not None:
            metadata = controller.broker.metadata
            assert isinstance(metadata, KraftMetadata), "process.roles is set"
            metadata.expire_session(broker_id)

    def fence_all(self) -> None:
        for node in self.brokers:
            self.fence(node.id)

    def link(self, one: int, other: int) -> Gate:
        return self._links.setdefault(frozenset((one, other)), Gate())

    def cut(self, one: int, other: int) -> None:
        """Nothing passes between the two any more; what is sent waits, as TCP would send it again."""
        gate = self.link(one, other)
        gate.shut()
        for node in self._up(one, other):
            node.network.hold_link(gate)

    def heal(self, one: int, other: int) -> None:
        gate = self.link(one, other)
        for node in self._up(one, other):
            node.network.release_link(gate)
        gate.open()

    def heal_all(self) -> None:
        """Nothing is cut off any more; for nodes that are about to start."""
        self._links.clear()

    def _up(self, *ids: int) -> Iterator[KitNode]:
        found = (self.by_id[node_id] for node_id in ids if node_id in self.by_id)
        return (node for node in found if node.state is State.RUNNING)

    def _link_to(self, node_id: int) -> _Links:
        return _Links(self, node_id)


class _Links:
    """The links of one node, by the port at the other end."""

    def __init__(self, nodes: Nodes, node_id: int) -> None:
        self._nodes = nodes
        self._node_id = node_id
        self._none = Gate()

    def __call__(self, port: int) -> Gate:
        if port == ZOOKEEPER_PORT:
            return self._nodes.link(self._node_id, ZOOKEEPER_ID)
        for node in self._nodes.by_id.values():
            if node.port == port:
                return self._nodes.link(self._node_id, node.id)
        return self._none


def all_done(promises: Iterable[Promise[None]]) -> Promise[None]:
    """Done when all are; fails with the first that does."""
    waiting = list(promises)
    done: Promise[None] = Promise()
    left = len(waiting)

    def one_more(_: None) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set(None)

    def failed(error: BaseException) -> None:
        nonlocal left
        if left > 0:
            left = -1
            done.fail(error)

    for promise in waiting:
        promise.then(one_more, failed)
    if not waiting:
        done.set(None)
    return done
