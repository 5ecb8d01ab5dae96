"""The faults: drawn by a seed, injected into a cluster, healed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tools.nemesis.cluster import Cluster
from tools.nemesis.ensemble import ZooKeeperServer
from tools.nemesis.packet_filter import Loss


class Kind(StrEnum):
    KILL = "kill -9"
    KILL_ALL = "kill -9 of all"
    PAUSE = "pause"
    PARTITION = "partition"
    ISOLATION = "isolation"
    ONE_WAY_LOSS = "one-way loss"
    PACKET_LOSS = "packet loss"
    DISK_FULL = "disk full"
    SYNC_ERROR = "fsync EIO"
    CLOCK_JUMP = "clock jump"
    ZOOKEEPER_KILL = "kill -9 of ZooKeeper"
    ZOOKEEPER_PAUSE = "pause of ZooKeeper"
    # No fault that a cluster must survive: with it a run must find lost writes, or the nemesis is blind.
    PLANTED_LOSS = "planted loss"


# What each needs, by the names of Hosts.lacking.
NEEDS: Mapping[Kind, str] = {
    Kind.PARTITION: "network",
    Kind.ISOLATION: "network",
    Kind.ONE_WAY_LOSS: "network",
    Kind.PACKET_LOSS: "network",
    Kind.DISK_FULL: "disk",
    Kind.SYNC_ERROR: "shim",
    Kind.CLOCK_JUMP: "shim",
}
# In ZooKeeper mode alone.
OF_ZOOKEEPER = (Kind.ZOOKEEPER_KILL, Kind.ZOOKEEPER_PAUSE)
KILLS = (Kind.KILL, Kind.KILL_ALL, Kind.PLANTED_LOSS)
# How often each is drawn.
WEIGHTS: Mapping[Kind, int] = {
    Kind.KILL: 4,
    Kind.KILL_ALL: 1,
    Kind.PAUSE: 4,
    Kind.PARTITION: 4,
    Kind.ISOLATION: 2,
    Kind.ONE_WAY_LOSS: 3,
    Kind.PACKET_LOSS: 3,
    Kind.DISK_FULL: 2,
    Kind.SYNC_ERROR: 2,
    Kind.CLOCK_JUMP: 3,
    Kind.ZOOKEEPER_KILL: 3,
    Kind.ZOOKEEPER_PAUSE: 3,
}
SHORTEST_S, LONGEST_S = 1.5, 7.0
MIN_PAUSE_S, MAX_PAUSE_S = 1.0, 5.0
# A fault in this many begins before the previous one is healed.
OVERLAPPING_IN = 4
# Below message.timestamp.after.max.ms (an hour): no broker refuses records for being ahead of its clock.
MAX_JUMP_S = 1800
# What a full disk leaves to the metadata log: less than a node lets its partitions use.
METADATA_BYTES = 8 << 20
# One packet in so many is lost.
LOSSES = (2, 3, 5, 10)


@dataclass(frozen=True)
class Fault:
    """What happens, to which nodes, and when; the last two are seconds from the start of a run."""

    kind: Kind
    nodes: tuple[int, ...]
    start_s: float
    end_s: float
    # One packet in so many, or the seconds of a jump.
    amount: int = 0

    def __str__(self) -> str:
        nodes = ", ".join(map(str, self.nodes))
        match self.kind:
            case Kind.PARTITION:
                detail = f"of {nodes} from the others"
            case Kind.ISOLATION:
                detail = f"of {nodes} from the others and the clients"
            case Kind.ONE_WAY_LOSS:
                detail = f"from {self.nodes[0]} to {self.nodes[1]}"
            case Kind.PACKET_LOSS:
                detail = f"at {nodes}, one in {self.amount}"
            case Kind.CLOCK_JUMP:
                detail = f"of {nodes} by {self.amount:+} s"
            case Kind.KILL_ALL:
                detail = ""
            case Kind.PLANTED_LOSS:
                detail = "of the end of a log on all nodes"
            case _:
                detail = f"of {nodes}"
        return f"{self.kind} {detail}".strip()


def draw_faults(seed: int, nodes: Sequence[int], seconds: float, kinds: Sequence[Kind]) -> list[Fault]:
    """The faults of a run: at least ten if it lasts two minutes."""
    random = Random(seed)
    # Every kind at least once, if there is time, in random order; then by weight.
    order = random.sample(list(kinds), len(kinds))
    faults: list[Fault] = []
    now = random.uniform(MIN_PAUSE_S, MAX_PAUSE_S)
    while True:
        weights = [WEIGHTS[kind] for kind in kinds]
        kind = order.pop() if order and random.random() < 0.6 else random.choices(list(kinds), weights)[0]
        end = now + random.uniform(SHORTEST_S, LONGEST_S)
        if end > seconds:
            return faults
        faults.append(_draw(random, kind, nodes, now, end))
        is_overlapping = random.randrange(OVERLAPPING_IN) == 0
        now = random.uniform(now, end) if is_overlapping else end + random.uniform(MIN_PAUSE_S, MAX_PAUSE_S)


def _draw(random: Random, kind: Kind, nodes: Sequence[int], start_s: float, end_s: float) -> Fault:
    minority = (len(nodes) - 1) // 2
    chosen: list[int]
    amount = 0
    match kind:
        case Kind.KILL_ALL:
            chosen = list(nodes)
        case Kind.ONE_WAY_LOSS:
            chosen = random.sample(list(nodes), 2)
        case (
            Kind.PARTITION
            | Kind.ISOLATION
            | Kind.KILL
            | Kind.PAUSE
            | Kind.ZOOKEEPER_KILL
            | Kind.ZOOKEEPER_PAUSE
        ):
            chosen = random.sample(list(nodes), random.randint(1, minority))
        case _:
            chosen = [random.choice(list(nodes))]
    if kind is Kind.PACKET_LOSS:
        amount = random.choice(LOSSES)
    elif kind is Kind.CLOCK_JUMP:
        amount = random.randint(-MAX_JUMP_S, MAX_JUMP_S)
    return Fault(
        kind,
        tuple(sorted(chosen)) if kind is not Kind.ONE_WAY_LOSS else tuple(chosen),
        start_s,
        end_s,
        amount,
    )


class Injector:
    """Injects and heals.  Several faults may be active at the same time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._active: list[Fault] = []
        # How often a node had ended because of its disk.
        self.ended = 0

    def available(self) -> tuple[list[Kind], dict[Kind, str]]:
        """The kinds that this machine can do, and the reasons why it cannot do others."""
        lacking = self._cluster.hosts.lacking
        missing = {kind: lacking[need] for kind, need in NEEDS.items() if need in lacking}
        others = OF_ZOOKEEPER if self._cluster.ensemble is None else ()
        return [kind for kind in WEIGHTS if kind not in missing and kind not in others], missing

    def may_end(self, node_id: int) -> bool:
        """Whether a node may end by itself now: its disk does not work, or has no space for metadata."""
        has_space = node_id % 2 or self._cluster.ensemble is not None
        ending = (Kind.SYNC_ERROR,) if has_space else (Kind.DISK_FULL, Kind.SYNC_ERROR)
        return any(node_id in fault.nodes and fault.kind in ending for fault in self._active)

    def inject(self, fault: Fault) -> None:
        self._active.append(fault)
        self._apply(fault, on=True)

    def heal(self, fault: Fault) -> None:
        self._active.remove(fault)
        self._apply(fault, on=False)

    def heal_all(self) -> None:
        for fault in list(self._active):
            self.heal(fault)
        for node in self._cluster.nodes.values():
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()
        if self._cluster.ensemble is not None:
            for server in self._cluster.ensemble.servers.values():
                server.resume()
                if not server.is_up:
                    server.start()

    def _apply(self, fault: Fault, *, on: bool) -> None:
        handlers: dict[Kind, Callable[[Fault, bool], None]] = {
            Kind.KILL: self._kill,
            Kind.KILL_ALL: self._kill,
            Kind.PAUSE: self._pause,
            Kind.DISK_FULL: self._fill_disk,
            Kind.SYNC_ERROR: self._fail_syncs,
            Kind.CLOCK_JUMP: self._shift_clock,
            Kind.ZOOKEEPER_KILL: self._kill_zookeeper,
            Kind.ZOOKEEPER_PAUSE: self._pause_zookeeper,
            Kind.PLANTED_LOSS: self._lose,
        }
        handlers.get(fault.kind, self._filter)(fault, on)

    def _kill(self, fault: Fault, on: bool) -> None:
        for node_id in fault.nodes:
            node = self._cluster.nodes[node_id]
            if on:
                node.kill()
            elif not node.is_up and not self.is_killed(node_id):
                node.start()

    def _kill_zookeeper(self, fault: Fault, on: bool) -> None:
        for server in self._servers(fault):
            if on:
                server.kill()
            elif not server.is_up:
                server.start()

    def _pause_zookeeper(self, fault: Fault, on: bool) -> None:
        for server in self._servers(fault):
            if on:
                server.pause()
            else:
                server.resume()

    def _servers(self, fault: Fault) -> list[ZooKeeperServer]:
        ensemble = self._cluster.ensemble
        assert ensemble is not None, "these faults are of ZooKeeper mode"
        return [ensemble.servers[number] for number in fault.nodes]

    def is_killed(self, node_id: int) -> bool:
        return any(node_id in fault.nodes and fault.kind in KILLS for fault in self._active)

    def _lose(self, fault: Fault, on: bool) -> None:
        """The last bytes of the longest log, on all nodes, while they are down."""
        self._kill(fault, on)
        if on:
            sizes: Counter[str] = Counter()
            for node in self._cluster.nodes.values():
                for file in node.data.glob("plain-*/*.log"):
                    sizes[f"{file.parent.name}/{file.name}"] += file.stat().st_size
            chosen = sizes.most_common(1)[0][0]
            for node in self._cluster.nodes.values():
                file = node.data / chosen
                if file.exists():
                    os.truncate(file, file.stat().st_size // 2)

    def _pause(self, fault: Fault, on: bool) -> None:
        for node_id in fault.nodes:
            node = self._cluster.nodes[node_id]
            if on and node.is_up:
                node.pause()
            elif not on and node.is_paused:
                node.resume()

    def _fill_disk(self, fault: Fault, on: bool) -> None:
        for node_id in fault.nodes:
            host = self._cluster.nodes[node_id].host
            if on:
                # A metadata log still fits on some, and they must stay; the others cannot go on.
                host.fill_disk(METADATA_BYTES if node_id % 2 else 0)
            else:
                host.free_disk()
                self._restart_if_ended(node_id)

    def _fail_syncs(self, fault: Fault, on: bool) -> None:
        for node_id in fault.nodes:
            self._cluster.nodes[node_id].control.fail_syncs(fail=on)
            if not on:
                self._restart_if_ended(node_id)

    def _restart_if_ended(self, node_id: int) -> None:
        node = self._cluster.nodes[node_id]
        if not node.is_up and not self.is_killed(node_id):
            self.ended += 1
            node.start()

    def _shift_clock(self, fault: Fault, on: bool) -> None:
        for node_id in fault.nodes:
            self._cluster.nodes[node_id].control.shift_clock(fault.amount if on else 0)

    def _filter(self, _: Fault, __: bool) -> None:
        packet_filter = self._cluster.hosts.filter
        assert packet_filter is not None
        packet_filter.replace([loss for fault in self._active for loss in self._losses(fault)])

    def _losses(self, fault: Fault) -> list[Loss]:
        chosen = self._cluster.addresses(fault.nodes)
        others = self._cluster.addresses([each for each in self._cluster.nodes if each not in fault.nodes])
        match fault.kind:
            case Kind.ONE_WAY_LOSS:
                return [Loss(chosen[0], chosen[1])]
            case Kind.PARTITION:
                return _both_ways(chosen, others)
            case Kind.ISOLATION:
                return _both_ways(chosen, [*others, self._cluster.hosts.client_address])
            case Kind.PACKET_LOSS:
                everybody = [*others, self._cluster.hosts.client_address]
                return _both_ways(chosen, everybody, fault.amount)
            case _:
                return []


def _both_ways(some: Sequence[str], others: Sequence[str], one_in: int = 1) -> list[Loss]:
    pairs = [(one, other) for one in some for other in others]
    return [loss for one, other in pairs for loss in (Loss(one, other, one_in), Loss(other, one, one_in))]
