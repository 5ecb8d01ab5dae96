"""One node of a cluster of the kit: formatted, started, stopped, killed, paused.

Everything runs on the reactor's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from barnabas.broker.server import Broker
from barnabas.config.node.node import Node, read_node
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.random import Random
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from barnabas.testing.kit.faults.routes import FaultPlan, install
from barnabas.testing.kit.node.disk import NodeDisk
from barnabas.testing.kit.node.ensemble import Ensemble
from barnabas.testing.kit.node.network import NodeNetwork
from barnabas.testing.kit.node.services import Gate, NodeLoop, NodeWorkers
from barnabas.testing.kit.profile import (
    CLIENT_LISTENER,
    CONTROLLER_LISTENER,
    HOST,
    format_folders,
    node_settings,
)

# The gate of the link to the node that listens on a port; that to ZooKeeper has the port 0.
LinkTo = Callable[[int], Gate]
ZOOKEEPER_PORT = 0


class State(Enum):
    """What a node does."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the nodes of a cluster share."""

    reactor: Reactor
    disk: Disk
    folder: str
    clock: Clock
    random: Random
    cluster_id: str
    faults: FaultPlan
    # In ZooKeeper mode.
    ensemble: Ensemble | None


class KitNode:
    """One node, over all its lives."""

    # The services of the present life.
    gate: Gate
    network: NodeNetwork
    _loop: NodeLoop
    _workers: NodeWorkers

    def __init__(
        self, node_id: int, roles: str, around: Surroundings, options: Mapping[str, str], link_to: LinkTo
    ) -> None:
        self.id = node_id
        self.roles = roles
        self.around = around
        self.state = State.STOPPED
        # Chosen by the system at the first start, unless it must be known before.
        self.port = 0
        self.log_dir = f"{around.folder}/{node_id}"
        self.disk = NodeDisk(around.disk, self.log_dir)
        self._options = options
        self._link_to = link_to
        self._broker: Broker | None = None
        self._is_formatted = False

    @property
    def is_broker(self) -> bool:
        return self.roles == "broker"

    @property
    def is_up(self) -> bool:
        return self.state in (State.RUNNING, State.PAUSED)

    def serves(self, but: int) -> bool:
        """Whether it runs, and is not the given one."""
        return self.state is State.RUNNING and self.id != but

    @property
    def is_working(self) -> bool:
        """Whether its workers have something to do."""
        return self.is_up and self._workers.pending > 0

    @property
    def broker(self) -> Broker:
        """The node's process."""
        assert self._broker is not None, f"node {self.id} is {self.state.value}"
        return self._broker

    def start(self, voters: str) -> Promise[None]:
        """A new life, from what is on the disk; done when clients are served."""
        around = self.around
        node = read_node({**node_settings(self, voters), **self._options})
        # In ZooKeeper mode a broker makes its folders itself.
        if not self._is_formatted and around.ensemble is None:
            format_folders(around.disk, node, around.cluster_id, around.random, around.clock.wall_ms())
            self._is_formatted = True
        self.gate = Gate()
        self._workers = NodeWorkers(around.reactor, self.gate)
        self.network = NodeNetwork(around.reactor, self.gate, self._workers, self._link_to)
        self._loop = NodeLoop(around.reactor, self.gate)
        broker = self._broker = Broker(
            node,
            disk=self.disk,
            clock=around.clock,
            random=around.random,
            loop=self._loop,
            network=self.network,
            workers=self._workers,
            host_name=lambda: HOST,
            zookeeper=self._zookeeper(node),
        )
        install(broker, around.faults, self._loop.timers)
        self.state = State.RUNNING
        started = broker.start()
        listener = CLIENT_LISTENER if self.is_broker else CONTROLLER_LISTENER
        self.port = broker.listeners[listener].address.port
        return started

    def _zookeeper(self, node: Node) -> ZooKeeperClient | None:
        ensemble = self.around.ensemble
        if ensemble is None:
            return None
        timeout_ms = node.settings["zookeeper.session.timeout.ms"]
        return ensemble.client(self.id, self._loop, self._link_to(ZOOKEEPER_PORT), timeout_ms)

    def stop(self, *, hand_over: bool) -> Promise[None]:
        """The node stops in order, its files are closed; `hand_over` moves its leaderships away first."""
        if self._broker is None:
            return Promise.of(None)
        if self.state is State.PAUSED:
            self.resume()
        if not hand_over:
            self._broker.lifecycle.stop()
        done: Promise[None] = Promise()

        def stopped(_: None) -> None:
            self._end(State.STOPPED)
            done.set(None)

        self._broker.stop().then(stopped, done.fail)
        return done

    def stop_fetching(self) -> None:
        """The whole cluster is about to stop."""
        if self.broker.hosted_replicas is not None:
            self.broker.hosted_replicas.fetchers.stop()

    def kill(self) -> None:
        """As by SIGKILL: nothing more is done or written, connections break, and files stay as they are."""
        if self._broker is not None:
            self.gate.end()
            self._loop.timers.end()
            self._end(State.KILLED)

    def pause(self) -> None:
        """As by SIGSTOP: connections stay open, and nothing happens."""
        if self.state is State.RUNNING:
            self.state = State.PAUSED
            self.gate.shut()
            self.network.pause()

    def resume(self) -> None:
        if self.state is State.PAUSED:
            self.state = State.RUNNING
            self.network.resume()
            self.gate.open()

    def _end(self, state: State) -> None:
        self.state = state
        self.network.close()
        self._workers.close()
        self.disk.end()
        self._broker = None
