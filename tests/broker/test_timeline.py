"""The timeline of a node: bounded in memory and on disk, written by workers, and never fatal."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker import timeline as module
from barnabas.broker.timeline import OLDER_FILE, TIMELINE_FILE, Timeline, read_timeline
from barnabas.metadata.image import EMPTY_IMAGE
from barnabas.metadata.timeline import Event, Kind
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.roles import Candidate, Follower, Unattached
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from tests.metadata.test_timeline import batch, registration

FOLDER = "/data"


class HeldWorkers:
    """Work is done when the test says so."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Callable[[], object], Callable[[object, BaseException | None], None]]] = []

    def submit(
        self, work: Callable[[], object], done: Callable[[object, BaseException | None], None], /
    ) -> None:
        self.submitted.append((work, done))

    def run(self) -> None:
        while self.submitted:
            work, done = self.submitted.pop(0)
            try:
                result = work()
            except OSError as error:
                done(None, error)
            else:
                done(result, None)


class World:
    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.disk.make_folder(FOLDER)
        self.workers = HeldWorkers()
        self.timeline = Timeline(1, self.disk, SystemClock(), self.workers)

    def open(self, log_end_offset: int = 0) -> World:
        self.timeline.open(FOLDER, log_end_offset)
        return self

    def written(self) -> list[Event]:
        return list(read_timeline(self.disk, FOLDER))


def test_events_are_written_by_one_worker_at_a_time() -> None:
    """The loop never waits: events that come meanwhile are written together, in order."""
    world = World().open()
    for number in range(3):
        world.timeline.add(Kind.NODE_STARTED, f"node {number}")
    assert len(world.workers.submitted) == 1
    assert world.written() == []
    world.workers.run()
    assert [event.subject for event in world.written()] == ["node 0", "node 1", "node 2"]
    assert [event.sequence for event in world.written()] == [1, 2, 3]
    assert world.written() == list(world.timeline.events)


def test_a_full_file_becomes_the_older_one() -> None:
    world = World().open()
    limit = module.MAX_FILE_BYTES
    text = "x" * 10_000
    for _ in range(100):
        world.timeline.add(Kind.NODE_STARTED, text)
        world.workers.run()
    sizes = [world.disk.size(f"{FOLDER}/{name}") for name in (OLDER_FILE, TIMELINE_FILE)]
    assert all(0 < size <= limit for size in sizes)
    assert len(world.timeline.events) == 100
    assert world.written() == list(world.timeline.events)[-len(world.written()) :]


def test_the_ring_keeps_the_last_events() -> None:
    world = World()
    for number in range(module.MAX_EVENTS + 5):
        world.timeline.add(Kind.NODE_STARTED, str(number))
    assert len(world.timeline.events) == module.MAX_EVENTS
    assert world.timeline.events[0].subject == "5"
    assert world.workers.submitted == []


def test_a_line_that_a_crash_has_torn_costs_itself_alone() -> None:
    world = World().open()
    world.timeline.add(Kind.NODE_STARTED, "first")
    world.workers.run()
    file = world.disk.open(f"{FOLDER}/{TIMELINE_FILE}")
    file.append([b'{"time_ms": 17'])
    file.close()
    again = World(world.disk).open()
    again.timeline.add(Kind.NODE_STARTED, "second")
    again.workers.run()
    assert [event.subject for event in again.written()] == ["first", "second"]


def test_a_failing_disk_costs_events_not_the_node() -> None:
    world = World().open()
    world.disk.make_folder(f"{FOLDER}/{TIMELINE_FILE}")
    world.timeline.add(Kind.NODE_STARTED, "lost")
    world.workers.run()
    world.timeline.add(Kind.NODE_STARTED, "not tried")
    assert world.workers.submitted == []
    assert [event.subject for event in world.timeline.events] == ["lost", "not tried"]
    closed: list[object] = []
    world.timeline.close().then(closed.append, closed.append)
    assert closed == [None]


def test_a_file_that_cannot_be_read_is_no_reason_not_to_start() -> None:
    world = World()
    world.disk.make_folder(f"{FOLDER}/{OLDER_FILE}")
    assert world.open(log_end_offset=7).timeline.recorded_offset == 6


def test_it_is_closed_when_everything_is_written() -> None:
    world = World().open()
    world.timeline.add(Kind.NODE_STARTED, "a")
    world.timeline.add(Kind.NODE_STOPPED, "b")
    closed: list[object] = []
    world.timeline.close().then(closed.append, closed.append)
    assert closed == []
    world.workers.run()
    assert closed == [None]
    assert len(world.written()) == 2


def test_a_restart_continues_after_the_last_record_in_the_file() -> None:
    """Without a file it begins with what is committed next: the past has no causes to tell."""
    assert World().open(log_end_offset=50).timeline.recorded_offset == 49
    world = World().open(log_end_offset=0)
    world.timeline.committed(EMPTY_IMAGE, batch(registration(1), last_offset=20))
    world.workers.run()
    assert world.timeline.recorded_offset == 20
    assert World(world.disk).open(log_end_offset=50).timeline.recorded_offset == 20
    world.timeline.skip_to(31)
    assert world.timeline.recorded_offset == 30
    world.timeline.skip_to(10)
    assert world.timeline.recorded_offset == 30


def elections(world: World) -> list[tuple[Kind, int | None, str]]:
    return [(event.kind, event.epoch, event.cause) for event in world.timeline.events]


def test_the_elections_that_a_node_sees() -> None:
    world = World()
    changed = world.timeline.leader_changed
    changed(1, NOBODY, Unattached(1, 0))  # Another node stands: that node reports it.
    changed(1, 2, Follower(1, 0, 2, ()))
    changed(2, NOBODY, Candidate(2, 0))
    changed(2, 1, Candidate(2, 0))
    changed(2, NOBODY, Unattached(2, 0))
    assert elections(world) == [
        (Kind.LEADER_ELECTED, 1, ""),
        (Kind.ELECTION_STARTED, 2, "leader 2 does not respond, or has resigned"),
        (Kind.LEADER_ELECTED, 2, "a majority of the voters voted for it"),
        (Kind.LEADER_RESIGNED, 2, "no majority of the voters fetches from it"),
    ]


def test_why_a_leader_resigns() -> None:
    world = World()
    world.timeline.leader_changed(2, 1, Candidate(2, 0))
    world.timeline.leader_changed(3, NOBODY, Unattached(3, 0))
    world.timeline.leader_changed(4, 1, Candidate(4, 0))
    world.timeline.is_stopping = True
    world.timeline.leader_changed(4, NOBODY, Unattached(4, 0))
    causes = [cause for kind, _, cause in elections(world) if kind is Kind.LEADER_RESIGNED]
    assert causes == ["a voter stands for election in epoch 3", "it stops"]
