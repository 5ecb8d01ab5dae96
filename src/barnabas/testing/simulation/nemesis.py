"""The nemesis: injects faults into a simulated world at random moments, and can be stopped.

Contains the schedule of faults.  Their effects belong in the world, and the invariants in a scenario.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from enum import Enum
from functools import partial

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.disk_faults import CHANGING, Kind
from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.world import Node, World
from barnabas.testing.simulation.metadata_node import DATA


class Strike(Enum):
    """The kinds of fault."""

    POWER_LOSS = "a node loses power now"
    POWER_LOSS_IN_OPERATION = "a node loses power in one of its next operations on the disk"
    KILL = "a process ends; its writes stay"
    PARTITION = "the nodes are partitioned into two groups"
    ONE_WAY_LOSS = "a node reaches another but gets nothing back"
    CUT = "the streams between two nodes break"
    CLOCK_JUMP = "a wall clock is set"
    CLOCK_DRIFT = "a clock runs fast or slow"
    SLOW_DISK = "a disk is slow"
    FAILED_WRITE = "a write finds the disk full"
    FULL_DIRECTORY = "for a while, the logs of partitions find the disk full; the metadata log does not"
    FAILED_SYNC = "a sync fails, and the system drops the data that it could not write"


# Every fault that a node without partitions can meet.
ALL_STRIKES = frozenset(Strike) - {Strike.FULL_DIRECTORY}
# What lies in a log directory, but for the metadata log.
PARTITIONS = ("[!_]*", "__[!c]*")


class Nemesis:
    """Injects faults until `stop`, then repairs everything.

    Each seed draws which kinds it uses, and how often (swarm testing): a world in which everything fails all
    the time never gets far enough to show some bugs.
    """

    def __init__(
        self,
        world: World,
        *,
        strikes: Collection[Strike] = ALL_STRIKES,
        mean_pause_ns: int = 300 * NS_PER_MS,
        max_down_ns: int = 500 * NS_PER_MS,
    ) -> None:
        self._world = world
        self._random = world.random_for("nemesis")
        drawn = [strike for strike in Strike if strike in strikes and self._random.fraction() < 0.6]
        self.strikes = drawn or [strike for strike in Strike if strike in strikes]
        self._pause_ns = self._random.integer(mean_pause_ns // 4, 2 * mean_pause_ns)
        self._max_down_ns = max_down_ns
        self._is_active = True
        world.links.faults = LinkFaults.draw(self._random)
        self._next_strike()
        for node in world.nodes.values():
            self._later(partial(self._look_after, node))

    def stop(self) -> None:
        """Repair everything: nodes are up, links are unblocked, disks and clocks work."""
        self._is_active = False
        world = self._world
        world.links.faults = LinkFaults()
        world.links.heal()
        for node in world.nodes.values():
            node.disk.clear_faults()
            node.clock.set_drift(0)
            if not node.is_up:
                node.start()

    def _next_strike(self) -> None:
        self._world.agenda.after(self._random.integer(1, 2 * self._pause_ns), self._strike)

    def _strike(self) -> None:
        if not self._is_active:
            return
        strike = self.strikes[self._random.integer(0, len(self.strikes) - 1)]
        self._world.agenda.note(f"strike {strike.name}")
        self._hit(strike)
        self._next_strike()

    def _hit(self, strike: Strike) -> None:
        node = self._node()
        match strike:
            case Strike.POWER_LOSS:
                node.crash(power_loss=True)
            case Strike.POWER_LOSS_IN_OPERATION:
                node.disk.crash_after(self._random.integer(1, 8))
            case Strike.KILL:
                node.crash(power_loss=False)
            case Strike.PARTITION:
                self._partition()
                self._later(self._world.links.heal)
            case Strike.ONE_WAY_LOSS:
                self._world.links.block(node.id, self._node().id)
                self._later(self._world.links.heal)
            case Strike.CUT:
                self._world.streams.cut(node.id, self._node().id)
            case Strike.CLOCK_JUMP:
                node.clock.jump(self._random.integer(-3_600_000, 3_600_000))
            case Strike.CLOCK_DRIFT:
                node.clock.set_drift(self._random.integer(-50_000, 50_000))
            case Strike.SLOW_DISK:
                node.disk.slow(self._random.integer(1, 50), kinds=CHANGING)
                self._later(node.disk.clear_faults)
            case Strike.FAILED_WRITE:
                node.disk.fail(self._random.integer(1, 4), errno.ENOSPC, kinds={Kind.WRITE})
            case Strike.FULL_DIRECTORY:
                for names in PARTITIONS:
                    node.disk.fail(
                        self._random.integer(1, 4),
                        errno.ENOSPC,
                        kinds={Kind.WRITE, Kind.CREATE},
                        path=f"{DATA}/{names}",
                        times=1_000_000,
                        kept_bytes=self._random.integer(0, 300),
                    )
                self._later(node.disk.clear_faults)
            case Strike.FAILED_SYNC:
                node.disk.fail(self._random.integer(1, 4), errno.EIO, kinds={Kind.SYNC})

    def _node(self) -> Node:
        nodes = list(self._world.nodes.values())
        return nodes[self._random.integer(0, len(nodes) - 1)]

    def _partition(self) -> None:
        sides: tuple[list[int], list[int]] = ([], [])
        for node_id in self._world.nodes:
            sides[self._random.integer(0, 1)].append(node_id)
        self._world.links.partition(*sides)

    def _later(self, repair: Callable[[], None]) -> None:
        self._world.agenda.after(self._random.integer(1, self._max_down_ns), repair)

    def _look_after(self, node: Node) -> None:
        """Restart a node that is down, whatever the reason; and check again later."""
        if self._is_active:
            if not node.is_up:
                node.start()
            self._later(partial(self._look_after, node))
