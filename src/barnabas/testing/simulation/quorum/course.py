"""Plays a scenario of the Raft protocol from a text file, on the real node in a simulated world.

One step a line; `#` begins a comment.  The world is quiet: messages take a millisecond, and nothing fails but
what the text says.  The checker watches every step, so that a scenario need only say what it is about.

    voters n1 n2 n3              the voters of a dynamic quorum; `static voters ...` for a configured one
    observers n4                 further nodes, which know where the voters are
    automatic joining            controller.quorum.auto.join.enable
    n2 has log 1 1 4             before the start: one record per number, of that epoch
    start [n2 n3]                all nodes, or those that are down
    elect n1                     n1 and the others miss their leader; n1 notices first, and is elected
    elect n1 unheard             ... and then nothing that it sends arrives, not even that it was elected
    n1 times out                 n1 alone misses its leader
    append x y at n1             two records, by the leader n1
    cut n1 | n2 n3               no message passes between the groups; `block n1 > n2` is one way; `heal`
    stop n1, power off n1        the process ends; without power, what was not flushed is lost
    empty disk n1                n1 comes back with a new, empty disk
    pause n1 900 ms, wait 2 s    virtual time
    snapshot n1                  n1 replaces its committed log by a snapshot
    add n4 at n1, remove n2 at n1, resign n1
    expect ...                   see `Expectations`
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import partial

from barnabas.base.effects import Fired
from barnabas.base.units import NS_PER_MS
from barnabas.raft.messages import Append, DataRecords, Resign
from barnabas.raft.node import POLL
from barnabas.raft.options import QuorumOptions
from barnabas.raft.quorum_state_file import NOBODY, ElectionState
from barnabas.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from barnabas.raft.rpc import AddVoterRequest, FetchedBatch, RemoveVoterRequest, VoterChangeResponse
from barnabas.raft.voters import NO_VOTERS, Voters
from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.simulation.quorum.checker import Checker
from barnabas.testing.simulation.quorum.journal import Entries, RaftState
from barnabas.testing.simulation.quorum.nodes import voter
from barnabas.testing.simulation.quorum.server import RaftServer

OPTIONS = QuorumOptions()
# How long a step lasts that waits for what it causes.
STEP_NS = 100 * NS_PER_MS
LATE_NS = 100 * NS_PER_MS
_UNITS = {"ms": NS_PER_MS, "s": 1000 * NS_PER_MS}


class CourseError(AssertionError):
    """A line that cannot be understood, or an expectation that does not hold."""


class Course:
    """One quorum, as the text has it."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self.world = World(1)
        delay_ns = NS_PER_MS
        self.world.links.faults = LinkFaults(min_delay_ns=delay_ns, max_delay_ns=delay_ns)
        self.servers: dict[int, RaftServer] = {}
        self.checker = Checker(self.servers, OPTIONS.check_quorum_timeout_ns + LATE_NS, LATE_NS)
        self.reports_failures = False
        self.stepped = self.checker.stepped
        self.appended = self.checker.appended
        self.answers: list[VoterChangeResponse] = []
        self.disks: dict[int, int] = {}
        self._kraft_version = 1
        self._voters: list[int] = []
        self._options = OPTIONS
        self._logs: dict[int, list[int]] = {}
        self._entries: dict[int, Entries] = {}
        self._expectations = Expectations(self)

    def play(self) -> None:
        """All steps; raises CourseError or InvariantError with the line."""
        for number, line in enumerate(self._lines, 1):
            step = line.partition("#")[0].split()
            if step:
                try:
                    self._step(step)
                except (CourseError, InvariantError) as error:
                    raise CourseError(f"line {number}, {line.strip()!r}: {error}") from error
                except (ValueError, KeyError, IndexError) as error:
                    raise CourseError(f"line {number} is not understood: {line.strip()!r}") from error

    def _step(self, step: list[str]) -> None:
        match step:
            case ["voters", *names] | ["static", "voters", *names]:
                self._kraft_version = 1 if step[0] == "voters" else 0
                self._voters = _ids(names)
                self._add_nodes(self._voters)
            case ["observers", *names]:
                self._add_nodes(_ids(names))
            case ["automatic", "joining"]:
                self._options = replace(self._options, auto_join=True)
            case [name, "has", "log", *epochs]:
                self._logs[_id(name)] = [int(epoch) for epoch in epochs]
            case ["start", *names]:
                self._start(_ids(names) or list(self.disks))
            case ["wait", count, unit]:
                self.world.run(int(count) * _UNITS[unit])
            case ["expect", *what]:
                self._expectations.check(what)
            case _:
                self._act(step)
                self.world.run(STEP_NS)

    def _act(self, step: list[str]) -> None:
        links = self.world.links
        match step:
            case ["elect", name]:
                self._elect(_id(name), is_heard=True)
            case ["elect", name, "unheard"]:
                self._elect(_id(name), is_heard=False)
            case [name, "times", "out"]:
                self._time_out(self.server(name))
            case ["append", *values, "at", name]:
                for value in values:
                    self._append(self.server(name), value.encode())
            case ["cut", *names]:
                links.heal()
                links.partition(*[_ids(group.split()) for group in " ".join(names).split("|")])
            case ["block", sender, ">", receiver]:
                links.block(_id(sender), _id(receiver))
            case ["heal"]:
                links.heal()
            case ["resign", name]:
                server = self.server(name)
                self._request(server, Resign(server.raft.epoch))
            case ["add", name, "at", leader]:
                me = voter(_id(name), self.disks[_id(name)])
                self._request(self.server(leader), AddVoterRequest(me, 0))
            case ["remove", name, "at", leader]:
                known = self.server(leader).raft.voters.get(_id(name))
                key = voter(_id(name)).key if known is None else known.key
                self._request(self.server(leader), RemoveVoterRequest(key))
            case _:
                self._break(step)

    def _break(self, step: list[str]) -> None:
        match step:
            case ["stop", *names]:
                for node in self._nodes(names):
                    node.crash(power_loss=False)
            case ["power", "off", *names]:
                for node in self._nodes(names):
                    node.crash(power_loss=True)
            case ["empty", "disk", name]:
                (node,) = self._nodes([name])
                node.crash(power_loss=True)
                self.checker.lost_disk(self.servers[node.id])
                self.disks[node.id] += 1
                self._entries[node.id] = Entries(str(self.disks[node.id]))
                node.start()
            case ["pause", name, count, unit]:
                self.server(name).node.pause(int(count) * _UNITS[unit])
            case ["snapshot", name]:
                server = self.server(name)
                server.node.enter(server.node.life, server.take_snapshot)
            case _:
                raise ValueError(step)

    # Nodes

    def server(self, name: str) -> RaftServer:
        program = self.world.nodes[_id(name)].program
        if not isinstance(program, RaftServer):
            raise CourseError(f"{name} is down")
        return program

    def running(self) -> list[RaftServer]:
        return [
            program for node in self.world.nodes.values() if isinstance(program := node.program, RaftServer)
        ]

    def _nodes(self, names: Iterable[str]) -> list[Node]:
        return [self.world.nodes[_id(name)] for name in names]

    def _add_nodes(self, node_ids: list[int]) -> None:
        for node_id in node_ids:
            self.disks[node_id] = 0
            self._entries[node_id] = Entries("0")

    def _start(self, node_ids: list[int]) -> None:
        for node_id in node_ids:
            if node_id not in self.world.nodes:
                self.world.add_node(node_id, self._boot)
            else:
                self.world.nodes[node_id].start()

    def _boot(self, node: Node) -> RaftServer:
        disk = self.disks[node.id]
        state = RaftState(NO_VOTERS, 0)
        others = tuple(node_id for node_id in self.disks if node_id != node.id)
        options = replace(self._options, bootstrap_ids=others)
        if disk == 0 and (node.id in self._voters or self._kraft_version == 0):
            options = self._options
            state = RaftState(Voters(map(voter, self._voters)), self._kraft_version)
        if self._logs:
            state.batches = [
                FetchedBatch(offset, offset + 1, epoch, (f"{offset}.{epoch}".encode(),))
                for offset, epoch in enumerate(self._logs.get(node.id, ()))
            ]
            state.election = ElectionState(max(max(log) for log in self._logs.values()))
        me = voter(node.id, disk)
        server = RaftServer(node, me, self._entries[node.id], state, options, self)
        self.servers[node.id] = server
        return server

    def _request(self, server: RaftServer, request: object) -> None:
        server.node.enter(server.node.life, partial(server.request, "course", request))

    def _append(self, server: RaftServer, value: bytes) -> None:
        if server.raft.leader_epoch is None:
            raise CourseError(f"n{server.node.id} is not the leader")
        self._request(server, Append(server.raft.leader_epoch, DataRecords((value,), 0)))

    def _time_out(self, server: RaftServer) -> None:
        role = server.raft.role
        if not isinstance(role, Follower | Unattached | Prospective | Candidate | Resigned):
            raise CourseError(f"n{server.node.id} leads, and waits for nobody")
        role.deadline_ns = server.node.clock.monotonic_ns()
        server.node.enter(server.node.life, partial(server.fire, Fired(POLL)))

    def _elect(self, node_id: int, *, is_heard: bool) -> None:
        for server in self.running():
            role = server.raft.role
            if isinstance(role, Follower):
                # It has missed its leader as well, and is about to notice.
                role.has_fetched = False
            elif isinstance(role, Unattached | Prospective | Candidate | Resigned):
                role.deadline_ns += STEP_NS
        server = self.server(_name(node_id))
        self._time_out(server)
        if not is_heard:
            self.world.run(STEP_NS, until=lambda: server.raft.is_leader)
            for other in self.disks:
                self.world.links.block(node_id, other)
        self.world.run(STEP_NS)
        if not server.raft.is_leader:
            raise CourseError(f"n{node_id} is {_role(server)} in epoch {server.raft.epoch}")

    # Observer

    def truncated(self, server: RaftServer) -> None:
        self.checker.truncated(server)

    def elected(self, server: RaftServer, epoch: int) -> None:
        self.checker.elected(server, epoch)

    def committed(self, server: RaftServer, high_watermark: int) -> None:
        self.checker.check_committed(server, high_watermark)

    def replied(self, server: RaftServer, handle: Hashable, response: object) -> None:
        if isinstance(response, VoterChangeResponse):
            self.answers.append(response)


class Expectations:
    """What a text may expect.

    n1 leads epoch 2 | n2 follows n1 | n2 follows nobody | n1 is resigned | n1 is in epoch 3
    a leader [other than n1] | no leader | voters n1 n2 | answer NONE
    committed x y            the values that were ever committed, in order, on any node
    n1 has x y               the values of its log, committed or not; `n1 committed x y`
    n1 has epochs 1 1 2      the epochs of its records
    equal logs               all running nodes
    """

    def __init__(self, course: Course) -> None:
        self._course = course

    def check(self, what: list[str]) -> None:
        course = self._course
        match what:
            case [name, "leads", "epoch", epoch]:
                server = course.server(name)
                self._equal((_role(server), server.raft.epoch), ("leader", int(epoch)))
            case [name, "follows", "nobody"]:
                self._equal(course.server(name).raft.leader_id, NOBODY)
            case [name, "follows", leader]:
                self._equal(_name(course.server(name).raft.leader_id), leader)
            case [name, "is", "in", "epoch", epoch]:
                self._equal(course.server(name).raft.epoch, int(epoch))
            case [name, "is", role]:
                self._equal(_role(course.server(name)), role)
            case ["no", "leader"]:
                self._equal(self._leaders(), [])
            case ["a", "leader", *other]:
                leaders = [name for name in self._leaders() if name not in other]
                if not leaders:
                    raise CourseError(f"the leaders are {self._leaders()}")
            case ["answer", error]:
                self._equal([each.error.name for each in course.answers][-1:], [error])
            case _:
                self._check_logs(what)

    def _check_logs(self, what: list[str]) -> None:
        course = self._course
        match what:
            case ["voters", *names]:
                voters = {_name(each.node.id): each.raft.voters for each in course.running()}
                self._equal(
                    {name: [_name(i) for i in v.ids] for name, v in voters.items()},
                    dict.fromkeys(voters, names),
                )
            case ["committed", *values]:
                self._equal(_text(course.checker.values()), values)
            case ["equal", "logs"]:
                logs = [each.journal.state.batches for each in course.running()]
                self._equal([log == logs[0] for log in logs], [True] * len(logs))
            case [name, "committed", *values]:
                server = course.server(name)
                self._equal(_values(server, server.high_watermark), values)
            case [name, "has", "epochs", *epochs]:
                log = course.server(name).journal.state.batches
                records = [each.epoch for each in log for _ in range(each.base_offset, each.end_offset)]
                self._equal(records, [int(epoch) for epoch in epochs])
            case [name, "has", *values]:
                server = course.server(name)
                self._equal(_values(server, server.raft.end_offset), values)
            case _:
                raise ValueError(what)

    def _leaders(self) -> list[str]:
        return [_name(each.node.id) for each in self._course.running() if each.raft.is_leader]

    def _equal(self, found: object, expected: object) -> None:
        if found != expected:
            raise CourseError(f"it is {found}, not {expected}")


def _values(server: RaftServer, end_offset: int) -> list[str]:
    state = server.journal.state
    values = [] if state.snapshot is None else list(state.snapshot.values)
    start = 0 if state.snapshot is None else state.snapshot.id.offset
    for batch in state.batches:
        if start <= batch.base_offset and batch.end_offset <= end_offset:
            values += batch.data  # type: ignore[arg-type]
    return _text(values)


def _text(values: Iterable[bytes]) -> list[str]:
    return [value.decode() for value in values]


def _role(server: RaftServer) -> str:
    role = server.raft.role
    if not server.raft.quorum.is_voter and isinstance(role, Follower | Unattached):
        return "observer"
    return type(role).__name__.lower()


def _id(name: str) -> int:
    if not name.startswith("n"):
        raise ValueError(name)
    return int(name[1:])


def _ids(names: Iterable[str]) -> list[int]:
    return [_id(name) for name in names]


def _name(node_id: int) -> str:
    return f"n{node_id}"
