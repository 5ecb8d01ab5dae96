"""Opening the logs of a directory in calls for workers: stopped in the midst of it, and watched (F14)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage import log_loader as loading
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
