"""Opening the logs of a directory in calls for workers: stopped in the midst of it, and watched (F14)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage import log_loader as loading
from barnabas.storage.directories.checkpoints import (
    CLEANER_CHECKPOINT,
    GAP_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    OffsetCheckpoint,
)
from barnabas.storage.directories.clean_shutdown import has_clean_shutdown
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from barnabas.storage.progress import REPORT_INTERVAL_NS, LoadingStopped
from tests.storage.logs import HandClock
from tests.storage.worlds import COMPACTED, contents, manager_of, put

LOGS = [TopicPartition("a", number) for number in range(4)]


def filled(*, is_clean: bool) -> MemoryDisk:
    """Four logs of three records, of which the first is deleted; closed, or as a kill leaves them."""
    disk = MemoryDisk()
    manager = manager_of(disk)
    for partition in LOGS:
        log = manager.get_or_create(partition, is_new=True)
        put(log, (b"k", b"1"), (b"l", b"2"), (b"m", b"3"))
        log.advance_log_start(1)
    if is_clean:
        manager.close(7)
    else:
        manager.checkpoint_log_starts("/data")
        manager.dirs.close()
    return disk


def opened(disk: Disk, clock: HandClock | None = None) -> LogManager:
    dirs = LogDirs(disk, ["/data"])
    dirs.open()
    return LogManager(disk, clock or HandClock(), SeededRandom(1), dirs, lambda topic: COMPACTED)


def stop_after(manager: LogManager, steps: int) -> None:
    calls = manager.load()
    with pytest.raises(LoadingStopped):
        for number, call in enumerate(calls, 1):
            call.run()
            if number == steps:
                manager.loading.stop()
    manager.close(8)


@pytest.fixture(autouse=True)
def one_log_a_call(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loading, "OPENED_PER_CALL", 1)
    yield


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_stop_before_all_logs_are_open_forgets_nothing(is_clean: bool, steps: int) -> None:
    """The checkpoints of a directory were written for the logs that were open: the others' starts were lost,
    and with them the knowledge which records were deleted."""
    disk = filled(is_clean=is_clean)
    before = disk.read_bytes("/data/log-start-offset-checkpoint")
    stop_after(opened(disk), steps)
    assert disk.read_bytes("/data/log-start-offset-checkpoint") == before
    assert has_clean_shutdown(disk, "/data") is is_clean
    again = manager_of(disk)
    for partition in LOGS:
        log = again.logs[partition]
        assert (log.log_start_offset, log.end_offset) == (1, 3)
        assert len(contents(log)) == 3, "of one batch"


def test_a_log_whose_recovery_is_stopped_is_recovered_again() -> None:
    disk = filled(is_clean=False)
    manager = opened(disk)
    calls = manager.load()
    next(calls).run()
    call = next(calls)
    healthy = manager.loading.reading

    def stopping(path: str, position: int, size: int) -> None:
        manager.loading.stop()
        healthy(path, position, size)

    manager.loading.reading = stopping  # type: ignore[method-assign]
    call.run()
    with pytest.raises(LoadingStopped):
        next(calls)
    manager.close(8)
    assert not has_clean_shutdown(disk, "/data")
    again = manager_of(disk)
    assert [len(contents(again.logs[partition])) for partition in LOGS] == [3, 3, 3, 3]


def test_a_repair_after_a_clean_stop_that_is_stopped_is_begun_again() -> None:
    """The mark of a clean stop would have half an index believed."""
    disk = filled(is_clean=True)
    disk.remove("/data/a-0/00000000000000000000.index")
    manager = opened(disk)
    calls = manager.load()
    next(calls).run()
    call = next(calls)
    manager.loading.reading = lambda path, position, size: _stop(manager)  # type: ignore[method-assign]
    call.run()
    with pytest.raises(LoadingStopped):
        next(calls)
    manager.close(8)
    assert not has_clean_shutdown(disk, "/data")


def _stop(manager: LogManager) -> None:
    manager.loading.stop()
    manager.loading.check()


def test_a_long_recovery_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    manager = opened(filled(is_clean=False), clock)
    with caplog.at_level(logging.INFO):
        for call in manager.load():
            call.run()
            clock.now_ms += REPORT_INTERVAL_NS // 1_000_000
    lines = [line for line in caplog.messages if line.startswith("recovery: ")]
    assert lines[0] == "recovery: 0 of 4 logs are open; /data/a-0/00000000000000000000.log: 0 %"
    assert lines[-1].startswith("recovery: 3 of 4 logs are open; /data/a-3/")
    assert len(lines) == 4, "once in a while"


CHECKPOINTS = (
    CLEANER_CHECKPOINT,
    GAP_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)


def in_checkpoints(disk: Disk, partition: TopicPartition, log_dir: str = "/data") -> dict[str, int]:
    found = {name: OffsetCheckpoint(disk, log_dir, name).read().get(partition) for name in CHECKPOINTS}
    return {name: offset for name, offset in found.items() if offset is not None}


def checkpoint_all(manager: LogManager, log_dir: str = "/data") -> None:
    """As if the cleaner had worked, too."""
    for log in manager.logs_in(log_dir).values():
        log.gaps_end = 2
    manager.checkpoint_gaps(log_dir)
    manager.checkpoint_log_starts(log_dir)
    manager.checkpoint_recovery_points(log_dir)
    manager.checkpoint_high_watermarks(log_dir)
    OffsetCheckpoint(manager.disk, log_dir, CLEANER_CHECKPOINT).write(
        dict.fromkeys(manager.logs_in(log_dir), 2)
    )


@pytest.mark.parametrize("is_clean", [True, False])
def test_nothing_is_inherited_from_a_stray_of_the_same_name(is_clean: bool) -> None:
    """cluster.md 17: a topic was deleted and made again while this broker was down.

    The log start of the old one was found in the checkpoint after the next crash: records were gone.
    """
    disk = filled(is_clean=is_clean)
    manager = manager_of(disk)
    checkpoint_all(manager)
    gone, kept = LOGS[1], LOGS[2]
    known = in_checkpoints(disk, kept)
    assert set(in_checkpoints(disk, gone)) == set(known) == set(CHECKPOINTS)
    manager.dirs.close()
    manager = opened(disk)
    for _ in manager.load(is_stray=lambda partition, topic_id: partition == gone):
        pass
    assert in_checkpoints(disk, gone) == {}
    assert in_checkpoints(disk, kept) == known
    assert gone not in manager.checkpointed_high_watermarks
    put(manager.get_or_create(gone, is_new=True), (b"k", b"new"))
    manager.dirs.close()
    log = manager_of(disk).logs[gone]
    assert (log.log_start_offset, contents(log)) == (0, [(0, b"k", b"new")])


def test_nothing_is_inherited_from_a_deleted_log_of_the_same_name() -> None:
    """Its high watermark made a new leader expose what no other replica had."""
    disk = filled(is_clean=True)
    manager = manager_of(disk)
    checkpoint_all(manager)
    manager.dirs.close()
    manager = manager_of(disk)
    manager.delete(LOGS[1])
    assert in_checkpoints(disk, LOGS[1]) == {}
    assert set(in_checkpoints(disk, LOGS[2])) == set(CHECKPOINTS)


def test_nothing_is_left_of_a_deletion_that_a_crash_ended() -> None:
    disk = filled(is_clean=True)
    manager = manager_of(disk)
    checkpoint_all(manager)
    manager.dirs.close()
    manager = manager_of(disk)
    manager.begin_delete(LOGS[1])
    manager.dirs.close()
    manager_of(disk)
    assert in_checkpoints(disk, LOGS[1]) == {}
    assert set(in_checkpoints(disk, LOGS[2])) == set(CHECKPOINTS)


def test_the_high_watermark_is_that_of_the_current_log() -> None:
    """Not that of its copy on the way to another directory, nor of an old topic's log there."""
    disk = MemoryDisk()
    manager = manager_of(disk, "/x", "/y")
    log = manager.get_or_create(LOGS[0], is_new=True)
    put(log, (b"k", b"1"), (b"l", b"2"))
    manager.prefer(LOGS[0], "/y")
    manager.get_or_create(LOGS[0], future=True)
    manager.close()
    assert manager_of(disk, "/x", "/y").checkpointed_high_watermarks == {LOGS[0]: 2}
