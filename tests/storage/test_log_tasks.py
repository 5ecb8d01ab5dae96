"""Log tasks by the clock: what is due when, in which pieces."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barnabas.base.ids import Uuid
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.loop.workers import WorkersBusyError
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_tasks import (
    LEADER_EPOCHS_AT_ONCE,
    LEADER_EPOCHS_INTERVAL_MS,
    LogTaskOptions,
    LogTasks,
)
from barnabas.storage.log_truncation import truncate_log
from tests.storage.logs import SMALL, T0, HandClock
from tests.storage.worlds import bases, manager_of, put

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
PLAIN = replace(SMALL, cleanup_compact=False, cleanup_delete=True)
QUIET = LogTaskOptions(log_initial_task_delay_ms=0)


class World:
    """A manager with two logs, its log tasks, and a clock."""

    def __init__(
        self, options: LogOptions = PLAIN, task_options: LogTaskOptions = QUIET, disk: Disk | None = None
    ) -> None:
        self.clock = HandClock()
        self.disk = MemoryDisk(clock=self.clock) if disk is None else disk
        self.manager: LogManager = manager_of(self.disk, clock=self.clock, options=options)
        self.flushed: list[tuple[str, int]] = []
        self.log_tasks = LogTasks(self.manager, task_options, flush=self.flush)
        for partition in (A0, B0):
            put(self.manager.get_or_create(partition, is_new=True), (b"k", b"1"))
        self.log_tasks.start()

    def flush(self, log: Log, up_to: int) -> None:
        self.flushed.append((log.name, up_to))
        log.flush(up_to)

    def run(self, ms: int = 0) -> int:
        """Let time pass, then do all that is due."""
        self.clock.now_ms += ms
        while (sleep_ms := self.log_tasks.run_due()) == 0:
            pass
        return sleep_ms


def test_the_jobs_wait_for_the_initial_delay_and_then_for_their_interval() -> None:
    options = LogTaskOptions(
        log_initial_task_delay_ms=30_000,
        log_flush_offset_checkpoint_interval_ms=7_000,
        replica_high_watermark_checkpoint_interval_ms=100_000,
    )
    world = World(task_options=options)
    path = "/data/recovery-point-offset-checkpoint"
    world.run(29_999)
    assert world.disk.read_bytes(path) == b""
    world.run(1)
    assert world.disk.read_bytes(path) == b"0\n2\na 0 0\nb 0 0\n"
    world.manager.logs[A0].roll()
    world.manager.logs[A0].flush()
    world.run(6_999)
    assert b"a 0 0" in world.disk.read_bytes(path)
    assert world.run(1) == 7_000
    assert b"a 0 1" in world.disk.read_bytes(path)


def test_high_watermarks_are_checkpointed_every_five_seconds() -> None:
    world = World()
    world.run()
    path = "/data/replication-offset-checkpoint"
    assert world.disk.read_bytes(path) == b"0\n2\na 0 1\nb 0 1\n"
    put(world.manager.logs[B0], (b"k", b"2"))
    world.run(4_999)
    assert b"b 0 1" in world.disk.read_bytes(path)
    world.run(1)
    assert b"b 0 2" in world.disk.read_bytes(path)


def test_log_starts_are_checkpointed() -> None:
    world = World()
    world.manager.logs[A0].advance_log_start(1)
    world.run(60_000)
    assert world.disk.read_bytes("/data/log-start-offset-checkpoint") == b"0\n1\na 0 1\n"


def test_retention_runs_and_its_files_go_later() -> None:
    # M-E3
    world = World(replace(PLAIN, retention_ms=1000))
    world.run()
    assert bases(world.manager.logs[A0]) == [0]
    world.run(300_000)
    assert bases(world.manager.logs[A0]) == [1]
    names = world.disk.names("/data/a-0")
    assert "00000000000000000000.log.deleted" in names
    world.run(59_999)
    assert world.disk.names("/data/a-0") == names
    world.run(1)
    assert not any(name.endswith(".deleted") for name in world.disk.names("/data/a-0"))


def test_compacted_logs_are_left_to_the_cleaner() -> None:
    world = World(replace(PLAIN, retention_ms=1000, cleanup_compact=True))
    world.run(300_000)
    assert bases(world.manager.logs[A0]) == [0]


def test_logs_are_flushed_when_flush_ms_is_over() -> None:
    world = World(replace(PLAIN, flush_ms=5_000), replace(QUIET, log_flush_scheduler_interval_ms=1_000))
    world.run(4_000)
    assert world.flushed == []
    world.run(1_000)
    assert world.flushed == [("a-0", 1), ("b-0", 1)]
    world.run(60_000)
    assert len(world.flushed) == 2, "nothing new to flush"
    assert world.manager.logs[A0].recovery_point == 1


def test_deleted_partitions_are_removed_after_the_delay() -> None:
    world = World()
    world.run()
    world.manager.delete(A0)
    (folder,) = (path for _, path in world.manager.folders_to_delete)
    sleep_ms = world.run(10_000)
    assert world.disk.exists(folder)
    assert sleep_ms <= 50_000
    world.run(49_999)
    assert world.disk.exists(folder)
    world.run(1)
    assert not world.disk.exists(folder)
    assert world.manager.folders_to_delete == []


def test_files_of_a_partition_deleted_meanwhile_do_no_harm() -> None:
    world = World(replace(PLAIN, retention_ms=1000))
    world.run(300_000)
    world.manager.delete(A0)
    world.run(60_000)
    world.run(60_000)
    assert [name for name in world.disk.names("/data") if name.startswith("a-0")] == []


def test_new_topic_ids_are_written() -> None:
    world = World()
    world.manager.get_or_create(A0, topic_id=Uuid.parse("k4UaK_bzSu6FNC6colHb3w"))
    world.run()
    assert world.disk.size("/data/a-0/partition.metadata") == 43


class Workers:
    """Hold what they are given until the test lets it run."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def offload(self, call: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.held.append((call, done))

    def run(self) -> int:
        """All that is there now; how much that was."""
        held, self.held = self.held, []
        for call, done in held:
            call()
            done(None)
        return len(held)

    def end(self, error: BaseException) -> None:
        """All that is there ends with this error."""
        held, self.held = self.held, []
        for _, done in held:
            done(error)


def world_with_workers(**fields: Any) -> tuple[World, LogTasks, Workers]:
    world, workers = World(replace(PLAIN, retention_ms=1000)), Workers()
    log_tasks = LogTasks(world.manager, replace(QUIET, **fields), offload=workers.offload)
    log_tasks.start()
    return world, log_tasks, workers


def test_what_waits_for_the_device_can_be_handed_to_a_worker() -> None:
    world, log_tasks, workers = world_with_workers()
    world.manager.get_or_create(A0, topic_id=Uuid.parse("k4UaK_bzSu6FNC6colHb3w"))
    world.manager.logs[B0].advance_log_start(1)
    while log_tasks.run_due() == 0:
        pass
    assert len(workers.held) == 5, "three checkpoints, leader epochs and a topic id"
    names = ["replication-offset", "recovery-point-offset", "log-start-offset"]
    paths = [f"/data/{name}-checkpoint" for name in names]
    assert [world.disk.read_bytes(path) for path in paths] == [b"", b"", b""]
    world.clock.now_ms += 60_000
    while log_tasks.run_due() == 0:
        pass
    assert len(workers.held) == 5, "a second write of the same file waits for the first"
    workers.run()
    assert [world.disk.read_bytes(path) for path in paths] == [
        b"0\n2\na 0 1\nb 0 1\n",
        b"0\n2\na 0 0\nb 0 0\n",
        b"0\n1\nb 0 1\n",
    ]
    assert world.disk.exists("/data/a-0/partition.metadata")
    world.clock.now_ms += 5_000
    log_tasks.run_due()
    workers.end(OSError(errno.EIO, "I/O error"))
    assert world.manager.logs == {}


def test_a_checkpoint_that_comes_late_does_not_undo_a_newer_one() -> None:
    world, log_tasks, workers = world_with_workers()
    log = world.manager.logs[A0]
    log.roll()
    put(log, (b"k", b"2"))
    log.roll()
    log.flush()
    while log_tasks.run_due() == 0:
        pass
    # A worker has yet to write that two records are safe when the second is truncated and written again.
    for _ in truncate_log(world.manager, A0, 1):
        pass
    workers.run()
    assert world.disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n2\na 0 1\nb 0 0\n"


def test_files_and_folders_are_removed_by_workers_one_after_another() -> None:
    world, log_tasks, workers = world_with_workers(
        log_flush_offset_checkpoint_interval_ms=0,
        log_flush_start_offset_checkpoint_interval_ms=0,
        replica_high_watermark_checkpoint_interval_ms=0,
    )
    while log_tasks.run_due() == 0:
        pass
    assert workers.run() == 4, "checkpoints and leader epochs, once"
    world.clock.now_ms += 300_000
    while log_tasks.run_due() == 0:
        pass
    log_tasks.run_due()  # hears of the files that retention let go
    assert workers.run() == 0, "leader epochs before the new log start stay on file until its name is synced"
    world.manager.delete(A0)
    world.clock.now_ms += 60_000
    while log_tasks.run_due() == 0:
        pass
    removals = 0
    while workers.held:
        assert len(workers.held) == 1
        removals += workers.run()
    assert removals == 3, "a segment of each log, and a folder"
    assert not any(name.startswith("a-0") for name in world.disk.names("/data"))
    assert not any(name.endswith(".deleted") for name in world.disk.names("/data/b-0"))


def test_what_no_worker_takes_is_tried_again() -> None:
    world, log_tasks, workers = world_with_workers(log_segment_delete_delay_ms=0)
    while log_tasks.run_due() == 0:
        pass
    workers.run()
    world.manager.delete(A0)
    ((_, folder),) = world.manager.folders_to_delete
    log_tasks.run_due()
    for _ in range(2):
        assert len(workers.held) == 1
        workers.end(WorkersBusyError("too many calls wait"))
        assert log_tasks.run_due() > 0
        assert workers.held == []
        world.clock.now_ms += 100
        log_tasks.run_due()
    assert world.disk.exists(folder)
    workers.run()
    assert not world.disk.exists(folder)


def test_a_topic_id_of_a_partition_deleted_meanwhile_is_no_failure() -> None:
    world, log_tasks, workers = world_with_workers()
    world.manager.get_or_create(A0, topic_id=Uuid.parse("k4UaK_bzSu6FNC6colHb3w"))
    while log_tasks.run_due() == 0:
        pass
    world.manager.delete(A0)
    workers.run()
    assert list(world.manager.live) == ["/data"]


def test_the_topic_id_of_a_recreated_partition_stays() -> None:
    world, log_tasks, workers = world_with_workers()
    world.manager.get_or_create(A0, topic_id=Uuid.parse("k4UaK_bzSu6FNC6colHb3w"))
    while log_tasks.run_due() == 0:
        pass
    world.manager.delete(A0)
    new_id = Uuid.parse("QNZvo6frfTevFH-wvw6L1w")
    world.manager.get_or_create(A0, topic_id=new_id, is_new=True)
    log_tasks.run_due()
    workers.held.reverse()
    while workers.run():
        world.clock.now_ms += 100
        log_tasks.run_due()
    assert world.disk.read_bytes("/data/a-0/partition.metadata").endswith(str(new_id).encode())


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_a_job_without_an_interval_runs_once(interval_ms: int) -> None:
    """As the scheduler of Apache Kafka has it, which takes such values for these four."""
    options = replace(
        QUIET,
        log_flush_scheduler_interval_ms=interval_ms,
        log_flush_offset_checkpoint_interval_ms=interval_ms,
        log_flush_start_offset_checkpoint_interval_ms=interval_ms,
        replica_high_watermark_checkpoint_interval_ms=interval_ms,
    )
    world = World(task_options=options)
    world.run()
    path = "/data/replication-offset-checkpoint"
    assert world.disk.read_bytes(path) == b"0\n2\na 0 1\nb 0 1\n"
    put(world.manager.logs[B0], (b"k", b"2"))
    world.run(3_600_000)
    assert b"b 0 1" in world.disk.read_bytes(path)


def test_a_job_that_does_not_keep_up_with_its_interval_does_not_pile_up() -> None:
    world = World(task_options=replace(QUIET, log_flush_scheduler_interval_ms=1))
    for _ in range(1000):
        world.clock.now_ms += 1
        world.log_tasks.run_due(pieces=1)
    assert len(world.log_tasks._pieces) < 20


def test_a_call_does_a_bounded_number_of_pieces() -> None:
    world = World()
    for number in range(40):
        world.manager.get_or_create(TopicPartition("many", number), is_new=True)
    world.run()
    world.clock.now_ms += 600_000
    calls = 0
    while world.log_tasks.run_due(pieces=5) == 0:
        calls += 1
    assert calls >= 84 // 5


def test_a_failing_directory_is_taken_offline_and_the_jobs_go_on() -> None:
    # M-E5
    clock = HandClock()
    disk = SimulatedDisk(SeededRandom(1), wall_ms=clock.wall_ms)
    manager = manager_of(disk, "/x", "/y", clock=clock, options=PLAIN)
    for partition in (A0, B0):
        put(manager.get_or_create(partition, is_new=True), (b"k", b"1"))
    log_tasks = LogTasks(manager, QUIET)
    log_tasks.start()
    disk.fail(1, errno.EIO, kinds={Kind.WRITE}, path="/x/*", times=999)
    for _ in range(20):
        clock.now_ms += 60_000
        while log_tasks.run_due() == 0:
            pass
    assert list(manager.logs) == [B0]
    assert disk.read_bytes("/y/recovery-point-offset-checkpoint") == b"0\n1\nb 0 0\n"


def test_producers_expire() -> None:
    world = World(replace(PLAIN, producer_id_expiration_ms=1000))
    log = world.manager.logs[A0]
    put(log, (b"k", b"1"), producer_id=4, producer_epoch=0, base_sequence=0, time=T0)
    world.run()
    assert 4 in log.producers.entries
    world.run(600_000)
    assert log.producers.entries == {}


def test_options_come_from_the_brokers_settings() -> None:
    options = LogTaskOptions.of(
        {"log.retention.check.interval.ms": 7, "log.segment.delete.delay.ms": 8, "other": 1}
    )
    assert options == replace(
        LogTaskOptions(), log_retention_check_interval_ms=7, log_segment_delete_delay_ms=8
    )


def test_leader_epochs_are_in_their_file_soon_after_they_were_assigned() -> None:
    # walkthrough.md 3: `cat leader-epoch-checkpoint` on a running broker
    world = World()
    log = world.manager.logs[A0]
    world.run()
    log.assign_epoch(7, log.end_offset)
    world.run(LEADER_EPOCHS_INTERVAL_MS)
    assert world.disk.read_bytes("/data/a-0/leader-epoch-checkpoint").endswith(b"7 1\n")


def test_leader_epochs_of_many_logs_are_written_a_few_at_a_time() -> None:
    world = World()
    world.run()
    names = [TopicPartition("c", index) for index in range(LEADER_EPOCHS_AT_ONCE + 1)]
    for name in names:
        world.manager.get_or_create(name, is_new=True).assign_epoch(1, 0)

    def written() -> int:
        return sum(bool(world.disk.read_bytes(f"/data/{name}/leader-epoch-checkpoint")) for name in names)

    world.run(LEADER_EPOCHS_INTERVAL_MS)
    assert written() == LEADER_EPOCHS_AT_ONCE
    world.run(LEADER_EPOCHS_INTERVAL_MS)
    assert written() == len(names)


def test_leader_epochs_that_are_written_late_do_not_undo_newer_ones() -> None:
    calls: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
    world = World()
    world.run()
    world.log_tasks._offload = lambda call, done: calls.append((call, done))
    log = world.manager.logs[A0]
    log.assign_epoch(7, log.end_offset)
    world.run(LEADER_EPOCHS_INTERVAL_MS)
    assert log in world.log_tasks.writing_epochs
    put(log, (b"k", b"2"))
    log.assign_epoch(8, log.end_offset)
    log.flush()
    content = world.disk.read_bytes("/data/a-0/leader-epoch-checkpoint")
    assert content.endswith(b"8 2\n")
    for call, done in calls:
        call()
        done(None)
    assert world.disk.read_bytes("/data/a-0/leader-epoch-checkpoint") == content
    assert log.epochs.plan_write() is None
    assert not world.log_tasks.writing_epochs
