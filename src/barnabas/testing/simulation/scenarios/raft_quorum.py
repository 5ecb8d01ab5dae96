"""A Raft quorum of three or five voters with observers, under every fault, while its voters change."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import count

from barnabas.base.errors import ErrorCode
from barnabas.base.units import NS_PER_MS
from barnabas.raft.messages import Append, DataRecords, Resign, Shutdown, UpgradeKraftVersion
from barnabas.raft.options import QuorumOptions
from barnabas.raft.roles import Leader
from barnabas.raft.rpc import AddVoterRequest, RemoveVoterRequest, VoterChangeResponse
from barnabas.raft.voters import HIGHEST_KRAFT_VERSION, NO_VOTERS, Voter, Voters
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.simulation.nemesis import Nemesis, Strike
from barnabas.testing.simulation.quorum.checker import Checker
from barnabas.testing.simulation.quorum.journal import Entries, RaftState
from barnabas.testing.simulation.quorum.nodes import static_voter, voter
from barnabas.testing.simulation.quorum.server import RaftServer, halt
from barnabas.testing.simulation.quorum.strangers import refused_requests
from barnabas.testing.simulation.registry import scenario

OPTIONS = QuorumOptions(
    election_timeout_ns=200 * NS_PER_MS,
    fetch_timeout_ns=300 * NS_PER_MS,
    election_backoff_max_ns=200 * NS_PER_MS,
    request_timeout_ns=300 * NS_PER_MS,
    retry_backoff_ns=20 * NS_PER_MS,
    fetch_max_wait_ns=100 * NS_PER_MS,
)
STRIKES = frozenset(Strike) - {Strike.CUT}
# Timers fire late on a node with a slow disk.
LATE_NS = 500 * NS_PER_MS
# Since a majority had last fetched.
CUT_OFF_NS = OPTIONS.check_quorum_timeout_ns + LATE_NS
FAULTS_NS = 3_000 * NS_PER_MS
# When the faults have ended, a leader is elected, all writes are committed and every node has them.
QUIET_NS = 10_000 * NS_PER_MS
VALUES = 60
MAX_BURST = 6
MAX_CHANGES = 16
MAX_PAUSES = 4
MAX_EMPTY_DISKS = 3
MAX_MOVES = 2
MAX_UPGRADES = 4
MAX_RESIGNATIONS = 6
MAX_SHUTDOWNS = 2
STRANGERS = 4
SNAPSHOTS = 6
# How often a client tries to write while nodes are away.
ATTEMPT_NS = 50 * NS_PER_MS


class Absence(Enum):
    """How nodes are away."""

    STOPPED = "their processes have ended"
    CUT_OFF = "no message passes"
    DEAF = "what they send arrives, and nothing reaches them"
    MUTE = "they are reached, and nothing that they send arrives"


class Run:
    """One quorum with its client and its operator."""

    # The program of a node.
    program: type[RaftServer] = RaftServer

    def __init__(self, world: World) -> None:
        self.world = world
        draw = world.random.integer
        self.servers: dict[int, RaftServer] = {}
        self.checker = Checker(self.servers, CUT_OFF_NS, LATE_NS)
        self.stepped = self.checker.stepped
        self.appended = self.checker.appended
        self.acknowledged: list[bytes] = []
        # Appended values that wait for their commit: node, life, epoch, end offset.
        self._waiting: dict[bytes, tuple[int, int, int, int]] = {}
        self.unsent = [b"%d" % number for number in range(VALUES)]
        self._nodes = draw(3, 6)
        voters = min(self._nodes, 5 if world.random.fraction() < 0.4 else 3)
        self.kraft_version = 1 if world.random.fraction() < 0.7 else 0
        describe = voter if self.kraft_version else static_voter
        self._voters = Voters(describe(node_id) for node_id in range(1, voters + 1))
        self.reports_failures = world.random.fraction() < 0.5
        # Elections meet more often if all voters miss their leader at about the same time.
        self._options = replace(
            OPTIONS,
            election_timeout_ns=draw(20, 200) * NS_PER_MS,
            auto_join=bool(self.kraft_version) and world.random.fraction() < 0.5,
        )
        # How often each node's disk was replaced by an empty one.
        self._disks = dict.fromkeys(range(1, self._nodes + 1), 0)
        self._entries = {node_id: Entries("0") for node_id in self._disks}
        # How often each node got another address, and which have an older release.
        self._moves = dict.fromkeys(self._disks, 0)
        self._old_releases: set[int] = set()
        # Nodes that the others have to do without.
        self._away: set[int] = set()
        for node_id in self._disks:
            world.add_node(node_id, self._boot)

    def _boot(self, node: Node) -> RaftServer | None:
        disk = self._disks[node.id]
        others = tuple(node_id for node_id in self._disks if node_id != node.id)
        is_formatted = disk == 0 and (self.kraft_version == 0 or node.id in self._voters.ids)
        if is_formatted:
            # The voters are configured, or in the first snapshot.
            state = RaftState(self._voters, self.kraft_version)
            options = self._options
        else:
            state = RaftState(NO_VOTERS, 0)
            options = replace(self._options, bootstrap_ids=others)
        try:
            server = self.program(node, self._me(node.id), self._entries[node.id], state, options, self)
        except OSError as error:
            halt(node, error)
            return None
        if node.id in self._old_releases:
            server.highest_version = 0
        self.servers[node.id] = server
        return server

    def _me(self, node_id: int) -> Voter:
        return voter(node_id, self._disks[node_id], self._moves[node_id])

    # What the servers do and decide

    def truncated(self, server: RaftServer) -> None:
        self.checker.truncated(server)

    def elected(self, server: RaftServer, epoch: int) -> None:
        self.world.agenda.note(f"n{server.node.id} elected in {epoch}")
        self.checker.elected(server, epoch)

    def committed(self, server: RaftServer, high_watermark: int) -> None:
        self.checker.check_committed(server, high_watermark)
        if not self._waiting:
            return
        here = (server.node.id, server.node.life, server.raft.leader_epoch)
        for value, waiting in list(self._waiting.items()):
            if waiting[:3] == here and waiting[3] <= high_watermark:
                del self._waiting[value]
                self.acknowledged.append(value)

    def replied(self, server: RaftServer, handle: Hashable, response: object) -> None:
        if isinstance(response, VoterChangeResponse):
            self.world.agenda.note(f"{handle} {response.error.name}")
        if handle == "stranger" and getattr(response, "error", None) in (None, ErrorCode.NONE):
            raise InvariantError(f"n{server.node.id} responds to a stranger: {response}")

    # The client and the operator

    def running(self) -> list[RaftServer]:
        return [
            program for node in self.world.nodes.values() if isinstance(program := node.program, RaftServer)
        ]

    def leader(self) -> RaftServer | None:
        """A server that believes to lead; there may be another one."""
        leaders = [server for server in self.running() if server.raft.is_leader]
        return leaders[self.world.random.integer(0, len(leaders) - 1)] if leaders else None

    def write(self) -> None:
        """Append the next values at a leader; a few at once, so that the logs of two leaders differ."""
        server = self.leader()
        for _ in range(self.world.random.integer(1, MAX_BURST)):
            if server is not None and self.unsent:
                server.node.enter(server.node.life, partial(self._write_at, server))

    def _write_at(self, server: RaftServer) -> None:
        epoch = server.raft.leader_epoch
        if epoch is None or not self.unsent:
            return
        value = self.unsent.pop(0)
        server.request("append", Append(epoch, DataRecords((value,), 0)))
        node = server.node
        self._waiting[value] = (node.id, node.life, epoch, server.raft.end_offset)

    def snapshot(self) -> None:
        servers = self.running()
        if servers:
            server = servers[self.world.random.integer(0, len(servers) - 1)]
            server.node.enter(server.node.life, server.take_snapshot)

    def upgrade(self) -> None:
        """The voters move from the configuration into the log (KIP-853), if all have described themselves."""
        server = self.leader()
        if server is not None:
            server.node.enter(server.node.life, partial(self._upgrade, server))

    def _upgrade(self, server: RaftServer) -> None:
        epoch = server.raft.leader_epoch
        if epoch is not None and server.raft.upgrade_error(1) is None:
            server.request("upgrade", UpgradeKraftVersion(epoch, 1))

    def move(self) -> None:
        """A node gets another address."""
        node = self._random_node()
        self._moves[node.id] += 1
        node.crash(power_loss=False)
        node.start()

    def change_release(self) -> None:
        """A node is downgraded, or upgraded again."""
        node = self._random_node()
        self._old_releases ^= {node.id}
        node.crash(power_loss=False)
        node.start()

    def shut_down(self) -> None:
        """A process is asked to end, and ends a little later."""
        node = self._random_node()
        program, life = node.program, node.life
        if isinstance(program, RaftServer):
            node.enter(life, partial(program.request, "shutdown", Shutdown()))
            node.after(self.world.random.integer(1, 400) * NS_PER_MS, partial(node.crash, power_loss=False))

    def _random_node(self) -> Node:
        return self.world.nodes[self.world.random.integer(1, self._nodes)]

    def meet_stranger(self) -> None:
        """Requests that must be refused."""
        program = self._random_node().program
        if isinstance(program, RaftServer):
            requests = refused_requests(program)
            request = requests[self.world.random.integer(0, len(requests) - 1)]
            program.node.enter(program.node.life, partial(program.request, "stranger", request))

    def resign(self) -> None:
        server = self.leader()
        if server is not None:
            request = Resign(server.raft.epoch)
            server.node.enter(server.node.life, partial(server.request, "resign", request))

    def pause(self) -> None:
        """A process is stopped for a while (SIGSTOP); it does not notice."""
        servers = self.running()
        if servers:
            server = servers[self.world.random.integer(0, len(servers) - 1)]
            server.node.pause(self.world.random.integer(50, 900) * NS_PER_MS)

    def change_voters(self) -> None:
        """Add or remove a voter; the leader refuses what is not safe now."""
        server = self.leader()
        if server is not None:
            node_id = self.world.random.integer(1, self._nodes)
            server.node.enter(server.node.life, partial(self._change_voter, server, node_id))

    def _change_voter(self, server: RaftServer, node_id: int) -> None:
        """Judged when the leader takes the request: it may have been paused, and a disk lost meanwhile."""
        known = server.raft.voters.get(node_id)
        request: object
        if known is None:
            request = AddVoterRequest(self._me(node_id), 1_000 * NS_PER_MS)
        else:
            remaining = server.raft.voters.without(known.key)
            if remaining is None or not self._is_alive(remaining):
                return
            request = RemoveVoterRequest(known.key)
        server.request(f"change {node_id}", request)

    def _is_alive(self, voters: Voters) -> bool:
        """Whether a majority still has the disks that the voters had, and is there."""
        alive = sum(
            each.id not in self._away and each.is_same(each.id, self._me(each.id).directory_id)
            for each in voters
        )
        return alive >= voters.majority and len(voters) > 1

    def lose_disk(self) -> None:
        """A node comes back with an empty disk: it is another replica (KIP-853, KAFKA-12181).

        As in every quorum a majority must keep its disks, whichever voters are effective.
        """
        node_id = self.world.random.integer(1, self._nodes)
        disk = self._disks[node_id]
        self._disks[node_id] += 1
        if not self._has_majorities():
            self._disks[node_id] = disk
            return
        self.world.agenda.note(f"n{node_id} empty disk")
        self.checker.lost_disk(self.servers[node_id])
        self._entries[node_id] = Entries(f"{disk + 1}")
        node = self.world.nodes[node_id]
        node.crash(power_loss=True)
        node.start()

    def _has_majorities(self) -> bool:
        """Whether a majority is alive, whichever voters are effective."""
        effective = [self.checker.voters(self._voters)]
        effective += [server.raft.voters for server in self.servers.values() if len(server.raft.voters)]
        return all(self._is_alive(self._with_late_joins(voters)) for voters in effective)

    def _with_late_joins(self, voters: Voters) -> Voters:
        """With the replicas whose request to join may still arrive, although their disks are lost or they are
        away."""
        for node_id, disk in self._disks.items():
            if node_id not in voters.ids and (disk or node_id in self._away):
                voters = voters.with_voter(voter(node_id, max(disk - 1, 0)))
        return voters

    def progress_without_some(self) -> None:
        """Quorum progress: a majority that is connected commits, whatever becomes of the others."""
        draw = self.world.random_for("absence").integer
        for node_id in sorted(self._disks, key=lambda _: draw(0, 1_000_000)):
            self._away.add(node_id)
            if not self._has_majorities():
                self._away.remove(node_id)
        absence = list(Absence)[draw(0, len(Absence) - 1)]
        self.world.agenda.note(f"{absence.name}: {sorted(self._away)}")
        self._isolate(absence)
        fresh: set[bytes] = set()
        for number in count(VALUES):
            if fresh.intersection(self.acknowledged):
                break
            if len(fresh) * ATTEMPT_NS > QUIET_NS:
                who = f"{sorted(self._away)} are away: {absence.value}"
                raise InvariantError(f"nothing is committed while {who}; {self.states()}")
            fresh.add(b"%d" % number)
            self.unsent.append(b"%d" % number)
            self.write()
            self.world.run(ATTEMPT_NS)
            self.restart(but=self._away if absence is Absence.STOPPED else ())
        self._away.clear()
        self.world.links.heal()

    def _isolate(self, absence: Absence) -> None:
        others = self._disks.keys() - self._away
        for node_id in sorted(self._away):
            if absence is Absence.STOPPED:
                self.world.nodes[node_id].crash(power_loss=False)
            for other in sorted(others):
                if absence in (Absence.CUT_OFF, Absence.DEAF):
                    self.world.links.block(other, node_id)
                if absence in (Absence.CUT_OFF, Absence.MUTE):
                    self.world.links.block(node_id, other)

    # The end

    def restart(self, *, but: Collection[int] = ()) -> None:
        """A fault of the disk may be reported, and end the process, after the faults have ended."""
        self._old_releases.clear()
        for server in self.servers.values():
            server.highest_version = HIGHEST_KRAFT_VERSION
        for node in self.world.nodes.values():
            if not node.is_up and node.id not in but:
                node.start()

    def pass_forgotten_epoch(self) -> None:
        """Have the leader elected again if an observer knows of a later epoch.

        A candidate told it of that epoch before it lost its disk.  The observer takes part in no election
        and follows no leader of an earlier epoch: it waits for the next election, as in Apache Kafka.
        """
        leader = self.leader()
        if leader is not None and any(self._disks.values()):
            voters = leader.raft.voters.ids
            later = [each for each in self.running() if each.raft.epoch > leader.raft.epoch]
            if any(each.node.id not in voters for each in later):
                self.resign()

    def is_settled(self) -> bool:
        """A leader with all voters at its end, and nothing left to write."""
        if self.unsent:
            return False
        running = self.running()
        leaders = [server for server in running if server.raft.is_leader]
        if len(leaders) != 1 or len(running) != self._nodes or not isinstance(leaders[0].raft.role, Leader):
            return False
        end_offset = leaders[0].raft.end_offset
        voters = leaders[0].raft.voters
        if self._options.auto_join and voters != Voters(map(self._me, self._disks)):
            # Every controller becomes a voter.
            return False
        if leaders[0].raft.kraft_version and not all(self._is_described(each) for each in voters):
            return False
        return all(
            each.high_watermark == end_offset == each.raft.end_offset and each.raft.voters == voters
            for each in running
        )

    def _is_described(self, known: Voter) -> bool:
        """Whether the voters have the address that the node has now; a node that lost its disk is another."""
        me = self._me(known.id)
        return known.key != me.key or known == me

    def check_values(self) -> None:
        """Everything acknowledged is committed, once and in order."""
        values = self.checker.values()
        acknowledged = set(self.acknowledged)
        order = [value for value in values if value in acknowledged]
        if sorted(order) != sorted(self.acknowledged):
            raise InvariantError(f"acknowledged {self.acknowledged}, committed {values}")
        if len(set(values)) != len(values):
            raise InvariantError(f"a value was committed twice: {values}")

    def states(self) -> list[tuple[object, ...]]:
        return [
            (
                each.node.id,
                type(each.raft.role).__name__,
                each.raft.epoch,
                each.raft.end_offset,
                each.high_watermark,
                each.raft.voters.ids,
            )
            for each in self.running()
        ]


@scenario("raft-quorum")
def raft_quorum(world: World) -> None:
    """A quorum commits each record once, on one leader an epoch, and loses none, whatever happens."""
    live(world, Run(world))


def live(world: World, run: Run) -> None:
    """The life of a quorum: faults, a majority alone, and quiet at the end."""
    draw = world.random.integer
    nemesis = Nemesis(
        world,
        strikes=STRIKES,
        mean_pause_ns=draw(50, 500) * NS_PER_MS,
        # Short ones as well: who is back at once meets the same election again.
        max_down_ns=draw(3, 38) ** 2 * NS_PER_MS,
    )
    actions = [run.write] * VALUES + [run.snapshot] * SNAPSHOTS + [run.pause] * draw(0, MAX_PAUSES)
    actions += [run.resign] * draw(0, MAX_RESIGNATIONS) + [run.shut_down] * draw(0, MAX_SHUTDOWNS)
    actions += [run.meet_stranger] * STRANGERS + [run.change_voters] * draw(0, MAX_CHANGES)
    actions += [run.move] * draw(0, MAX_MOVES) + [run.change_release] * draw(0, MAX_MOVES)
    if run.kraft_version:
        # A static voter with an empty disk would vote again (KAFKA-12181).
        actions += [run.lose_disk] * draw(0, MAX_EMPTY_DISKS)
    else:
        actions += [run.upgrade] * draw(0, MAX_UPGRADES)
    for action in actions:
        world.agenda.after(draw(0, FAULTS_NS), action)
    world.run(FAULTS_NS)
    nemesis.stop()
    world.run(200 * NS_PER_MS)
    run.progress_without_some()

    def write_rest() -> None:
        run.write()
        world.agenda.after(50 * NS_PER_MS, write_rest)

    write_rest()
    # Looked at now and then only: it asks every node.
    for _ in range(QUIET_NS // (100 * NS_PER_MS)):
        world.run(100 * NS_PER_MS)
        run.restart()
        run.pass_forgotten_epoch()
        if run.is_settled():
            break
    else:
        raise InvariantError(f"the quorum has not settled after the faults ended: {run.states()}")
    run.check_values()
