"""A cluster that runs: its thread, its clock, its disk and its nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TypeVar

from barnabas.config.option import Mode
from barnabas.runtime.clock import ShiftedClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.quiet import QuietPoller
from barnabas.runtime.loop.reactor_thread import ReactorThread
from barnabas.runtime.random import SystemRandom, random_uuid
from barnabas.testing.kit.faults.outages import Effect
from barnabas.testing.kit.faults.routes import FaultPlan
from barnabas.testing.kit.node.ensemble import Ensemble
from barnabas.testing.kit.node.node import KitNode, Surroundings
from barnabas.testing.kit.node.nodes import Layout, Nodes

T = TypeVar("T")

# How long something on the reactor may take that does not wait for anything.
CALL_PATIENCE_S = 30.0
STOP_PATIENCE_S = 60.0


class Running:
    """One life of a cluster, from its start to its stop."""

    def __init__(
        self,
        clock: ShiftedClock,
        disk: Disk,
        folder: str,
        layout: Layout,
        options: Mapping[str, str],
    ) -> None:
        self.clock = clock
        self.disk = disk
        self.folder = folder
        self.faults = FaultPlan()
        # What befalls nodes, links and disks at present.
        self.effects: dict[Effect, None] = {}
        self.is_over = False
        self.poller = QuietPoller()
        self._thread = ReactorThread("barnabas-cluster", clock=clock, poller=self.poller)
        self.reactor = self._thread.reactor
        random = SystemRandom()
        self.cluster_id = str(random_uuid(random))
        self.ensemble = Ensemble(self.reactor, clock) if layout.mode is Mode.ZOOKEEPER else None
        self.nodes = Nodes(
            layout,
            Surroundings(
                self.reactor, disk, folder, clock, random, self.cluster_id, self.faults, self.ensemble
            ),
            options,
        )

    def call(self, action: Callable[[], T]) -> T:
        """Run it on the reactor, where everything of the brokers happens."""
        return self._thread.call(action, CALL_PATIENCE_S)

    def finish(self, begin: Callable[[], Promise[T]], timeout_s: float = CALL_PATIENCE_S) -> T:
        """Begin it on the reactor, and wait for its end."""
        return self._thread.finish(begin, timeout_s)

    def stop(self) -> None:
        self.is_over = True
        with contextlib.ExitStack() as stack:
            stack.callback(self._thread.end)
            stack.callback(self.call, self.nodes.kill_all)
            self.call(self.faults.clear)
            self.finish(self.nodes.stop, STOP_PATIENCE_S)

    def node(self, node_id: int) -> KitNode:
        """Raises ValueError with the ids that there are."""
        node = self.nodes.by_id.get(node_id)
        if node is None:
            known = ", ".join(map(str, self.nodes.by_id))
            raise ValueError(f"there is no node {node_id!r}; the nodes are {known}")
        return node
