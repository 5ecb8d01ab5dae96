"""Log directories without space: what is refused, what goes on, and what is left for later."""

from __future__ import annotations

import errno
import logging
from dataclasses import replace

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.directories.clean_shutdown import has_clean_shutdown
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.retention import expire
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_tasks import LEADER_EPOCHS_INTERVAL_MS, LogTaskOptions, LogTasks
from tests.storage.logs import SMALL, T0, HandClock, batch, offsets
from tests.storage.worlds import COMPACTED, manager_of, put

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
TOPIC_ID = Uuid.parse("k4UaK_bzSu6FNC6colHb3w")
PLAIN = replace(SMALL, cleanup_compact=False, cleanup_delete=True, segment_bytes=300)
WRITES = (Kind.WRITE, Kind.CREATE)


class World:
    """A manager with two directories, and a log in each."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.disk = SimulatedDisk(SeededRandom(1), wall_ms=self.clock.wall_ms)
        self.events: list[tuple[str, bool]] = []
        self.open()
        for partition in (A0, B0):
            self.manager.get_or_create(partition, is_new=True)
        self.a, self.b = self.manager.logs[A0], self.manager.logs[B0]
        assert (self.a.folder, self.b.folder) == ("/x/a-0", "/y/b-0")
        for log in (self.a, self.b):
            log.append_as_leader(batch(2), 0)

    def open(self) -> None:
        self.manager: LogManager = manager_of(self.disk, "/x", "/y", clock=self.clock, options=PLAIN)
        self.manager.full.listeners.append(
            lambda path, reason: self.events.append((path, reason is not None))
        )

    def fill(self, path: str = "/x/*") -> None:
        self.disk.fail(1, errno.ENOSPC, kinds=WRITES, path=path, times=10**6)

    def fill_and_notice(self) -> None:
        self.fill()
        self.refuse(self.a)

    def refuse(self, log: Log) -> None:
        with self.manager.guarding(log.folder.rpartition("/")[0]), pytest.raises(DirectoryFull) as refused:
            log.append_as_leader(batch(1), 0)
        self.manager.fail(log.folder.rpartition("/")[0], refused.value)

    def make_room(self) -> None:
        self.disk.clear_faults()
        for log in self.manager.full.unsynced_tails("/x"):
            log.flush()
        self.manager.full.has_room("/x")


def test_only_the_full_directory_refuses_writes_and_it_stays_online(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.WARNING):
        world.fill_and_notice()
        world.refuse(world.a)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("/x is full: writes to its 1 partitions are refused until there is room")
    assert "/x/a-0: appending is refused: no space is left on the device" in line
    assert world.manager.dirs.live == ["/x", "/y"]
    assert list(world.manager.full) == ["/x"]
    assert offsets(world.a) == [0, 1]
    world.b.append_as_leader(batch(1), 0)
    world.make_room()
    world.a.append_as_leader(batch(1), 0)
    assert offsets(world.a) == [0, 1, 2]
    assert world.events == [("/x", True), ("/x", False)]


def test_a_directory_that_fails_is_no_longer_full() -> None:
    world = World()
    world.fill_and_notice()
    world.manager.fail("/x", OSError(errno.EIO, "broken"))
    assert not world.manager.full
    assert world.manager.dirs.live == ["/y"]


def test_new_logs_avoid_a_full_directory_and_none_is_left_half_made() -> None:
    world = World()
    world.fill_and_notice()
    for number in range(3):
        assert world.manager.get_or_create(TopicPartition("new", number), is_new=True).folder.startswith(
            "/y/"
        )
    world.disk.fail(1, errno.ENOSPC, kinds=WRITES, path="/y/*", times=10**6)
    with pytest.raises(DirectoryFull) as refused:
        world.manager.get_or_create(TopicPartition("new", 3), is_new=True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert set(world.manager.full) == {"/x", "/y"}
    assert [name for path in ("/x", "/y") for name in world.disk.names(path) if name == "new-3"] == []
    world.make_room()
    log = world.manager.get_or_create(TopicPartition("new", 3), is_new=True)
    log.append_as_leader(batch(1), 0)


def test_records_and_partitions_are_deleted_and_the_checkpoints_follow() -> None:
    world = World()
    for _ in range(10):
        world.a.append_as_leader(batch(2, time=T0 - 10**9, size=60), 0)
    world.a.set_high_watermark(world.a.end_offset)
    world.manager.checkpoint_recovery_points("/x")
    world.fill_and_notice()
    before = world.a.size
    world.a.advance_log_start(4)
    with world.manager.guarding("/x"):
        expire(world.a, world.clock.wall_ms())
    assert world.a.size < before
    world.manager.delete(A0)
    assert not world.disk.exists("/x/a-0")
    assert world.manager.changes.is_deleted(A0), "its checkpoints name it: none of its name may be created"
    world.make_room()
    world.manager.finish_deletes()
    assert not world.manager.changes.is_deleted(A0)
    assert b"a 0" not in world.disk.read_bytes("/x/recovery-point-offset-checkpoint")


def test_what_background_tasks_could_not_write_is_written_when_there_is_room() -> None:
    world = World()
    tasks = LogTasks(world.manager, LogTaskOptions(log_initial_task_delay_ms=0))
    world.fill()
    world.manager.get_or_create(A0, topic_id=TOPIC_ID)
    world.a.assign_epoch(5, 2)

    def run() -> None:
        world.clock.now_ms += LEADER_EPOCHS_INTERVAL_MS
        while tasks.run_due() == 0:
            pass

    run()
    assert list(world.manager.full) == ["/x"]
    run()
    assert not world.disk.exists("/x/a-0/partition.metadata")
    world.make_room()
    run()
    assert str(TOPIC_ID).encode() in world.disk.read_bytes("/x/a-0/partition.metadata")
    assert b"5 2" in world.disk.read_bytes("/x/a-0/leader-epoch-checkpoint")


def test_compaction_leaves_a_log_alone_until_there_is_room() -> None:
    world = World()
    world.b.set_options(COMPACTED)
    for number in range(4):
        put(world.b, (b"k", b"%d" % number))
        world.b.roll()
    world.disk.fail(1, errno.ENOSPC, kinds=WRITES, path="*.cleaned", times=10**6)
    cleaner = world.manager.cleaner
    assert cleaner is not None

    def clean() -> None:
        for _ in range(200):
            world.clock.now_ms += 60_000
            cleaner.step()

    clean()
    assert list(world.manager.full) == ["/y"]
    assert not cleaner.uncleanable
    assert offsets(world.b)[-4:] == [2, 3, 4, 5]
    assert [name for name in world.disk.names("/y/b-0") if "cleaned" in name] == []
    world.disk.clear_faults()
    world.manager.full.has_room("/y")
    clean()
    assert offsets(world.b)[-1] == 5
    assert 4 not in offsets(world.b)


def test_a_full_directory_is_not_marked_clean_and_its_logs_are_recovered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """cluster.md 15"""
    world = World()
    world.fill_and_notice()
    with caplog.at_level(logging.ERROR):
        caplog.clear()
        world.manager.close()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("/x has no space to be marked as closed cleanly: its logs are recovered")
    assert [has_clean_shutdown(world.disk, path) for path in ("/x", "/y")] == [False, True]
    world.disk.clear_faults()
    world.open()
    assert offsets(world.manager.logs[A0]) == [0, 1]


def test_a_start_without_space_for_recovery_leaves_no_clean_mark(caplog: pytest.LogCaptureFixture) -> None:
    """cluster.md 15, KAFKA-13773: one line says why, and the next start recovers."""
    world = World()
    world.disk.restart()
    world.fill()
    with caplog.at_level(logging.ERROR):
        world.open()
    assert not world.manager.full
    (reason,) = world.manager.dirs.offline.values()
    assert reason in caplog.text
    assert "no space is left on the device" in reason
    world.manager.close()
    assert not has_clean_shutdown(world.disk, "/x")
    world.disk.clear_faults()
    world.disk.restart()
    world.open()
    assert offsets(world.manager.logs[A0]) == [0, 1]
