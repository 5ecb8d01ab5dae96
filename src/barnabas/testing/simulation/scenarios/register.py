"""A minimal replicated journal: the simulated world's own test.

One primary takes values, writes them to its journal and replicates them; followers write and acknowledge; a
value on a majority of disks is acknowledged to the client.  It uses every part of the world: messages,
timers, disks, group commit, crashes.  It is also an example: a new scenario may start as a copy of this file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from barnabas.base.effects import (
    Core,
    Effect,
    Event,
    Fired,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.executor import Executor
from barnabas.runtime.planted import patched
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.simulation.nemesis import Nemesis, Strike
from barnabas.testing.simulation.registry import planted, scenario

PRIMARY = 0
NODES = 3
MAJORITY = NODES // 2 + 1
VALUES = 30
RESEND_NS = 50_000_000
ASK_EVERY_NS = 60_000_000
# There are no streams to cut.  After a failed sync the page cache shows data that the disk does not have; a
# process that restarts on it cannot tell, and this example, which reads its journal back, does not handle
# that.
STRIKES = frozenset(Strike) - {Strike.CUT, Strike.FAILED_SYNC}

# ---------------------------------------------------------------------------------------------- the journal


class Journal:
    """Values in a file: each with its index and a checksum, so that a torn tail is detected."""

    RECORD = struct.Struct(">III")
    PATH = "/data/journal"

    def __init__(self, disk: Disk) -> None:
        disk.make_folder("/data")
        disk.sync_folder("/")
        self._file = disk.open(self.PATH, create=True)
        disk.sync_folder("/data")
        self.values = self._recover()

    def write(self, entry: object) -> None:
        assert isinstance(entry, int)
        self.values.append(entry)
        self._file.append([self._record(len(self.values), entry)])

    def sync(self) -> None:
        self._file.sync()

    def _recover(self) -> list[int]:
        """The values up to the first bad record; the rest is truncated."""
        values: list[int] = []
        data = self._file.read_at(0, self._file.size)
        for position in range(0, len(data) - self.RECORD.size + 1, self.RECORD.size):
            _, index, value = self.RECORD.unpack_from(data, position)
            if data[position : position + self.RECORD.size] != self._record(index, value):
                break
            values.append(value)
        self._file.truncate(len(values) * self.RECORD.size)
        self._file.sync()
        return values

    @classmethod
    def _record(cls, index: int, value: int) -> bytes:
        return cls.RECORD.pack(zlib.crc32(b"%d %d" % (index, value)), index, value)


# ------------------------------------------------------------------------------------------------ the cores


@dataclass(frozen=True, slots=True)
class Replicate:
    """The value at this index, counted from 1."""

    index: int
    value: int


@dataclass(frozen=True, slots=True)
class Ack:
    """The sender has this many values on its disk."""

    length: int


class Primary:
    """Takes values, replicates them, and responds when a majority has them."""

    def __init__(self, values: list[int]) -> None:
        self.log = list(values)
        self._on_disk = dict.fromkeys(range(NODES), 0)
        self._on_disk[PRIMARY] = len(values)
        self._committed = 0
        self._asked: dict[int, list[Hashable]] = {}

    def step(self, event: Event, now_ns: int) -> Sequence[Effect]:
        match event:
            case Requested(reply_to, int(value)):
                return self._requested(reply_to, value)
            case Persisted(int(length)):
                return self._has(PRIMARY, length)
            case Received(sender, Ack(length)):
                return [*self._has(sender, length), *self._next_for(sender)]
            case Fired():
                return [*self._resend(), SetTimer("resend", now_ns + RESEND_NS)]
        return ()

    def _requested(self, reply_to: Hashable, value: int) -> list[Effect]:
        if value in self.log:
            index = self.log.index(value) + 1
            if index <= self._committed:
                return [Reply(reply_to, index)]
            self._asked.setdefault(index, []).append(reply_to)
            return []
        self.log.append(value)
        index = len(self.log)
        self._asked[index] = [reply_to]
        message = Replicate(index, value)
        return [Persist(value, index), *(Send(to, message) for to in range(NODES) if to != PRIMARY)]

    def _has(self, node: int, length: int) -> list[Effect]:
        self._on_disk[node] = max(self._on_disk[node], length)
        replies: list[Effect] = []
        while self._committed < self._majority_has():
            self._committed += 1
            replies += [Reply(to, self._committed) for to in self._asked.pop(self._committed, [])]
        return replies

    def _majority_has(self) -> int:
        return sorted(self._on_disk.values(), reverse=True)[MAJORITY - 1]

    def _next_for(self, node: int) -> list[Effect]:
        length = self._on_disk[node]
        return [Send(node, Replicate(length + 1, self.log[length]))] if length < len(self.log) else []

    def _resend(self) -> list[Effect]:
        return [effect for node in range(NODES) if node != PRIMARY for effect in self._next_for(node)]


class Follower:
    """Writes the next value, and reports how many it has."""

    def __init__(self, values: list[int]) -> None:
        self.log = list(values)

    def step(self, event: Event, now_ns: int) -> Sequence[Effect]:
        match event:
            case Received(sender, Replicate(index, value)):
                if self._fits(index):
                    self.log.append(value)
                    return [Persist(value), Send(sender, Ack(len(self.log)))]
                return [Send(sender, Ack(len(self.log)))]
        return ()

    def _fits(self, index: int) -> bool:
        return index == len(self.log) + 1


# --------------------------------------------------------------------------------------------- the scenario


class Exits:
    """Destinations of a node's effects: messages go to the world, replies to the scenario."""

    def __init__(self, node: Node, run: Run) -> None:
        self._node = node
        self._run = run

    def send(self, to: int, message: object) -> None:
        self._node.send(to, message)

    def reply(self, to: Hashable, message: object) -> None:
        assert isinstance(to, int)
        assert isinstance(message, int)
        self._node.world.agenda.note(f"answer {to} at {message}")
        self._run.answer(to, message)

    def apply(self, decided: object) -> None:
        raise NotImplementedError("the cores of this scenario do not use Apply")


class Run:
    """One world with a primary, its followers and a client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.answered: dict[int, int] = {}
        self._to_check: list[int] = []
        for node_id in range(NODES):
            world.add_node(node_id, self._boot)
        world.check_always(self._check_logs)
        world.check_always(self._check_answers)

    def _boot(self, node: Node) -> Executor:
        journal = Journal(node.disk)
        core: Core = Primary(journal.values) if node.id == PRIMARY else Follower(journal.values)
        executor = Executor(
            core,
            clock=node.clock,
            timers=node.timers,
            store=journal,
            workers=node.workers,
            exits=Exits(node, self),
            on_failure=node.halt,
        )
        if node.id == PRIMARY:
            executor.step(Fired("resend"))
        return executor

    def ask(self, value: int) -> None:
        """Request that the primary stores a value, repeatedly until it confirms."""
        node = self.world.nodes[PRIMARY]
        if value in self.answered:
            return
        node.enter(node.life, partial(self._ask_now, node, value))
        self.world.agenda.after(ASK_EVERY_NS, partial(self.ask, value))

    @staticmethod
    def _ask_now(node: Node, value: int) -> None:
        if node.program is not None:
            node.program.step(Requested(value, value))

    def answer(self, value: int, index: int) -> None:
        """The primary confirms that this value is safe."""
        if value not in self.answered:
            self.answered[value] = index
            self._to_check.append(value)

    def log_of(self, node_id: int) -> list[int] | None:
        program = self.world.nodes[node_id].program
        if not isinstance(program, Executor):
            return None
        core = program.core
        return core.log if isinstance(core, (Primary, Follower)) else None

    def _check_logs(self) -> None:
        """Followers have what the primary has, in its order, and nothing else."""
        primary = self.log_of(PRIMARY)
        if primary is None:
            return
        for node_id in range(1, NODES):
            log = self.log_of(node_id)
            if log is not None and log != primary[: len(log)]:
                raise InvariantError(f"node {node_id} has {log}, the primary has {primary}")

    def _check_answers(self) -> None:
        """Values that were just acknowledged would survive a power loss everywhere, on a majority."""
        if self._to_check:
            self.check_answers(self._to_check)
            self._to_check.clear()

    def check_answers(self, values: Iterable[int]) -> None:
        """Cut the power of a copy of every disk, and look for these values."""
        journals = [self._survivor(node) for node in self.world.nodes.values()]
        for value in sorted(values):
            index = self.answered[value]
            holders = sum(journal[index - 1 : index] == [value] for journal in journals)
            if holders < MAJORITY:
                raise InvariantError(
                    f"value {value} was acknowledged and is safe on {holders} of {NODES} disks"
                )

    def _survivor(self, node: Node) -> list[int]:
        copy = node.disk.fork(self.world.random_for(f"copy {node.id} {self.world.now_ns}"))
        copy.power_loss()
        copy.restart()
        return Journal(copy).values


@scenario("register")
def register(world: World) -> None:
    """A replicated journal loses no acknowledged value, whatever happens to its nodes and their network."""
    run = Run(world)
    nemesis = Nemesis(world, strikes=STRIKES)
    for value in range(1, VALUES + 1):
        world.agenda.after(world.random.integer(0, 2_000_000_000), partial(run.ask, value))
    world.run(2_500_000_000)
    nemesis.stop()
    world.run(5_000_000_000, until=lambda: len(run.answered) == VALUES)
    if len(run.answered) < VALUES:
        raise InvariantError(
            f"only {len(run.answered)} of {VALUES} values were acknowledged after the faults ended"
        )
    run.check_answers(run.answered)


# ----------------------------------------------------------------------------------------- the planted bugs


@planted("register: send before sync", scenario="register")
def send_before_sync() -> Iterator[None]:
    """The executor carries out effects while their entry is still in memory only."""
    healthy = Executor._sync

    def sync(self: Executor) -> None:
        healthy(self)
        self._durable = self._written

    with patched(Executor, "_sync", sync):
        yield


@planted("register: join the running sync", scenario="register")
def join_running_sync() -> Iterator[None]:
    """Entries that are written while a sync runs count as synced when it ends."""
    healthy = Executor._synced

    def synced(self: Executor, written: int, result: object, error: BaseException | None) -> None:
        healthy(self, self._written, result, error)

    with patched(Executor, "_synced", synced):
        yield


@planted("register: one disk is enough", scenario="register")
def one_disk_is_enough() -> Iterator[None]:
    """The primary responds when a single disk has the value."""
    with patched(Primary, "_majority_has", lambda self: max(self._on_disk.values())):
        yield


@planted("register: gaps accepted", scenario="register")
def gaps_accepted() -> Iterator[None]:
    """A follower accepts a value that arrives too early."""
    with patched(Follower, "_fits", lambda self, index: index > len(self.log)):
        yield


@planted("register: value taken twice", scenario="register")
def values_again() -> Iterator[None]:
    """A follower accepts a value again that it already has."""
    with patched(Follower, "_fits", lambda self, index: index >= len(self.log)):
        yield


@planted("register: torn tail kept", scenario="register")
def torn_tail_kept() -> Iterator[None]:
    """Recovery does not check the checksums."""

    def recover(self: Journal) -> list[int]:
        data = self._file.read_at(0, self._file.size)
        data = data[: len(data) // self.RECORD.size * self.RECORD.size]
        self._file.truncate(len(data))
        return [value for _, _, value in self.RECORD.iter_unpack(data)]

    with patched(Journal, "_recover", recover):
        yield


@planted("register: name not synced", scenario="register")
def name_not_synced() -> Iterator[None]:
    """The journal's name in its folder is never synced."""
    with patched(SimulatedDisk, "sync_folder", lambda self, path: None):
        yield
