"""The speed of the simulation, with invariants checked after every event."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from barnabas.base.effects import Event, Received
from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.world import Node, World
from barnabas.testing.simulation.registry import SCENARIOS, load_all
from barnabas.testing.simulation.runner import play_or_raise
from bench.registry import OURS, Contender, Workbench, row

VIRTUAL_NS = 20_000_000_000


class Ball:
    """The smallest program: returns each message incremented by one."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.caught = 0

    def step(self, event: Event) -> None:
        if isinstance(event, Received) and isinstance(event.message, int):
            self.caught += 1
            self.node.send(event.sender, event.message + 1)


def ping_pong() -> float:
    """Messages between three nodes over a network without losses and duplicates."""
    world = World(1)
    world.links.faults = LinkFaults(max_delay_ns=1_000_000)
    for node_id in range(3):
        world.add_node(node_id, Ball)
        world.nodes[0].send(node_id, 0)
    world.check_always(lambda: None)
    started = time.process_time()
    world.run(VIRTUAL_NS)
    return world.agenda.events / (time.process_time() - started)


def register() -> float:
    """The replicated journal: executor, disks, timers, faults, and a real invariant."""
    load_all()
    started = time.process_time()
    events = sum(play_or_raise(SCENARIOS["register"], seed).events for seed in range(100))
    return events / (time.process_time() - started)


def quorum(scenario: str, seeds: int) -> float:
    """Nodes, controllers or replicas of production under every fault, checked after every step."""
    load_all()
    started = time.process_time()
    events = sum(play_or_raise(SCENARIOS[scenario], seed).events for seed in range(seeds))
    return events / (time.process_time() - started)


@row(
    "simulation-quorum-events",
    "Simulated quorums and replicas, one process",
    unit="events per CPU-second",
    own_goal=50_000,
)
def quorums(workbench: Workbench) -> Mapping[str, Contender]:
    return {
        f"{OURS}, controllers and their images": partial(quorum, "controller-quorum", 30),
        f"{OURS}, Raft alone": partial(quorum, "raft-quorum", 100),
        f"{OURS}, partitions": partial(quorum, "replicas", 100),
    }


@row("simulation-events", "Simulated world, one process", unit="events per CPU-second")
def contenders(workbench: Workbench) -> Mapping[str, Contender]:
    return {OURS: ping_pong, f"{OURS}, replicated journal": register}
