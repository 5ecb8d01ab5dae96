"""The log cleaner: choosing, remembering, pausing, giving up, throttling."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.cleaner.cleaner import CleanerOptions, LogCleaner
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.refused import StorageRefused
from tests.storage.logs import HandClock, open_log
from tests.storage.worlds import COMPACTED, bases, cleaner_of, contents, manager_of, put, steps

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
CHECKPOINT = "/data/cleaner-offset-checkpoint"


def dirty_log(
    disk: MemoryDisk | SimulatedDisk, clock: HandClock, name: str = "orders-0", count: int = 4
) -> Log:
    log = open_log(disk, COMPACTED, folder=f"/data/{name}", clock=clock)
    for number in range(count):
        put(log, (b"a", b"%d" % number), time=clock.now_ms)
        log.roll()
    return log


def world(count: int = 4, **fields: Any) -> tuple[MemoryDisk, HandClock, Log, LogCleaner, list[Any]]:
    clock = HandClock()
    disk = MemoryDisk(clock=clock)
    log = dirty_log(disk, clock, count=count)
    cleaner, failures = cleaner_of(disk, clock, log, **fields)
    return disk, clock, log, cleaner, failures


def test_a_dirty_log_is_cleaned_and_remembered() -> None:
    # M-E3
    disk, clock, log, cleaner, failures = world()
    assert disk.read_bytes(CHECKPOINT) == b""
    for _ in steps(cleaner):
        pass
    assert contents(log) == [(3, b"a", b"3")]
    assert disk.read_bytes(CHECKPOINT) == b"0\n1\norders 0 4\n"
    assert cleaner.clean_up_to(ORDERS) == 4
    assert cleaner.last_stats is not None
    assert cleaner.last_stats.records_kept == 1
    assert not failures
    again, _ = cleaner_of(disk, clock, log)
    assert again.clean_up_to(ORDERS) == 4
    list(steps(again))
    assert again.last_stats is None, "nothing is dirty any more"


def test_after_the_backoff_it_looks_again() -> None:
    _, clock, log, cleaner, _ = world()
    assert list(steps(cleaner))
    put(log, (b"a", b"later"))
    log.roll()
    clock.now_ms += 14_999
    assert cleaner.step() == 1
    clock.now_ms += 1
    assert cleaner.step() == 0
    list(steps(cleaner))
    assert contents(log) == [(4, b"a", b"later")]


def test_the_dirtiest_log_comes_first() -> None:
    clock = HandClock()
    disk = MemoryDisk(clock=clock)
    first, second = dirty_log(disk, clock, "orders-0"), dirty_log(disk, clock, "other-0")
    disk.write_atomically(CHECKPOINT, b"0\n2\norders 0 3\nother 0 2\n")
    cleaner, _ = cleaner_of(disk, clock, first, second)
    cleaner.step()
    assert cleaner.is_cleaning(OTHER)
    assert cleaner.dirtiest_ratio == 0.5
    list(steps(cleaner))
    assert (cleaner.clean_up_to(ORDERS), cleaner.clean_up_to(OTHER)) == (4, 4)


def test_logs_that_are_not_compacted_or_not_dirty_enough_are_left() -> None:
    _, _, log, cleaner, _ = world()
    log.set_options(replace(COMPACTED, cleanup_compact=False, cleanup_delete=True))
    assert cleaner.step() == 15_000
    _, _, log, cleaner, _ = world()
    log.set_options(replace(COMPACTED, min_cleanable_dirty_ratio=1.0))
    list(steps(cleaner))
    assert len(contents(log)) == 4


def test_max_compaction_lag_overrides_the_ratio() -> None:
    _, clock, log, cleaner, _ = world()
    log.set_options(replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=500))
    clock.now_ms += 501
    list(steps(cleaner))
    assert cleaner.longest_overdue_ms == 0, "seen again after the cleaning"
    assert len(contents(log)) == 1


def test_a_checkpoint_beyond_the_log_is_corrected() -> None:
    clock = HandClock()
    disk = MemoryDisk(clock=clock)
    log = dirty_log(disk, clock)
    disk.write_atomically(CHECKPOINT, b"0\n2\norders 0 99\ngone 0 5\n")
    cleaner, _ = cleaner_of(disk, clock, log)
    list(steps(cleaner))
    assert disk.read_bytes(CHECKPOINT) == b"0\n1\norders 0 4\n", "and the removed partition is dropped"


def test_a_damaged_checkpoint_means_cleaning_from_the_start(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    disk = MemoryDisk(clock=clock)
    log = dirty_log(disk, clock)
    disk.write_atomically(CHECKPOINT, b"0\n1\norders 0\n")
    cleaner, _ = cleaner_of(disk, clock, log)
    assert f"{CHECKPOINT}, line 3: malformed entry" in caplog.text
    list(steps(cleaner))
    assert contents(log) == [(3, b"a", b"3")]


def test_abort_and_pause() -> None:
    disk, _, log, cleaner, _ = world(io_buffer_size=1)
    cleaner.step()
    cleaner.step()
    assert cleaner.is_cleaning(ORDERS)
    cleaner.pause(ORDERS)
    cleaner.pause(ORDERS)
    assert not cleaner.is_cleaning(ORDERS)
    assert not any(name.endswith(".cleaned") for name in disk.names("/data/orders-0"))
    assert cleaner.step() == 15_000
    cleaner.resume(ORDERS)
    assert len(contents(log)) == 4
    cleaner.resume(ORDERS)
    with pytest.raises(ValueError, match=r"orders-0 is not paused"):
        cleaner.resume(ORDERS)


def test_truncation_and_moving_change_the_checkpoint() -> None:
    disk, _, _, cleaner, _ = world()
    list(steps(cleaner))
    cleaner.truncated(ORDERS, "/data", 7)
    assert cleaner.clean_up_to(ORDERS) == 4
    cleaner.truncated(ORDERS, "/data", 2)
    cleaner.plan_checkpoint("/data")()
    assert disk.read_bytes(CHECKPOINT) == b"0\n1\norders 0 2\n"
    disk.make_folder("/new")
    cleaner.add_dir("/new")
    cleaner.moved(ORDERS, "/data", "/new")
    for log_dir in ("/data", "/new"):
        cleaner.plan_checkpoint(log_dir)()
    assert disk.read_bytes(CHECKPOINT) == b"0\n0\n"
    assert disk.read_bytes("/new/cleaner-offset-checkpoint") == b"0\n1\norders 0 2\n"
    cleaner.forget(ORDERS, "/new")
    assert cleaner.clean_up_to(ORDERS) is None


def test_a_log_that_cannot_be_cleaned_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    _, clock, log, cleaner, failures = world()
    log.segments[0].file().write_at(30, b"\xff")
    list(steps(cleaner))
    assert cleaner.uncleanable == {ORDERS}
    assert (
        "orders-0 cannot be cleaned and is left unchanged: the checksum of the batch at offset 0"
        in caplog.text
    )
    assert cleaner.clean_up_to(ORDERS) is None
    assert bases(log) == [0, 1, 2, 3, 4]
    assert not failures
    caplog.clear()
    clock.now_ms += 20_000
    list(steps(cleaner))
    assert caplog.text == "", "not tried again"


def test_an_old_record_format_is_reported_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    _, _, log, cleaner, _ = world()
    log.segments[0].file().write_at(16, b"\x01")
    list(steps(cleaner))
    assert "a batch of format v1 is not compacted" in caplog.text


def test_a_failing_disk_is_reported_as_such() -> None:
    # M-E5
    clock = HandClock()
    disk = SimulatedDisk(SeededRandom(1), wall_ms=clock.wall_ms)
    disk.make_folder("/data")
    log = dirty_log(disk, clock)
    cleaner, failures = cleaner_of(disk, clock, log)
    disk.fail(1, errno.EIO, kinds={Kind.WRITE}, path="*.cleaned")
    while not failures:
        cleaner.step()
    ((log_dir, error),) = failures
    assert log_dir == "/data"
    assert error.errno == errno.EIO
    assert not cleaner.uncleanable


def test_retention_of_compacted_logs_is_the_cleaners() -> None:
    # M-E3
    _, clock, log, cleaner, _ = world()
    log.set_options(replace(COMPACTED, cleanup_delete=True, retention_ms=1000, min_cleanable_dirty_ratio=1.0))
    clock.now_ms += 1001
    list(steps(cleaner))
    assert bases(log) == [4]
    assert log.log_start_offset == 4


def test_the_io_rate_is_kept() -> None:
    _, clock, _, cleaner, _ = world(io_max_bytes_per_second=100.0)
    waited = cleaner.step()
    assert waited > 500
    assert cleaner.step() == waited
    clock.now_ms += waited - 1
    assert cleaner.step() == 1
    clock.now_ms += 1
    assert cleaner.step() > 0


def test_workers_can_do_what_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, _, log, cleaner, failures = world()
    log.epochs.write_out()  # with the plan of a flush, once for each leader
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_folder", synced.append)
    done = 0
    while cleaner.last_stats is None:
        if (sync := cleaner.pending_sync) is not None:
            sync.run()
            assert sync.is_done
            done += 1
        before = len(synced)
        assert cleaner.step() == 0
        assert len(synced) == before, "no step waits for the device itself"
    assert done == 7, "the flush, the gaps, the new segment, three changes of names, the checkpoint"
    assert bases(log) == [0, 4]
    assert disk.read_bytes(CHECKPOINT) == b"0\n1\norders 0 4\n"
    assert not failures


@pytest.mark.parametrize("is_stop", [False, True])
def test_a_swap_that_fails_when_it_is_given_up_fails_the_directory(is_stop: bool) -> None:
    # M-E5
    clock = HandClock()
    disk = SimulatedDisk(SeededRandom(1), wall_ms=clock.wall_ms)
    disk.make_folder("/data")
    log = dirty_log(disk, clock)
    cleaner, failures = cleaner_of(disk, clock, log)
    while bases(log) == [0, 1, 2, 3, 4]:
        cleaner.step()
    disk.fail(1, errno.EIO, kinds={Kind.RENAME})
    if is_stop:
        cleaner.stop()
    else:
        cleaner.abort(ORDERS)
    assert [log_dir for log_dir, _ in failures] == ["/data"]


def test_a_sync_that_failed_on_a_worker_fails_the_directory() -> None:
    # M-E5
    clock = HandClock()
    disk = SimulatedDisk(SeededRandom(1), wall_ms=clock.wall_ms)
    disk.make_folder("/data")
    log = dirty_log(disk, clock)
    cleaner, failures = cleaner_of(disk, clock, log)
    while cleaner.pending_sync is None:
        cleaner.step()
    disk.fail(1, errno.EIO, kinds={Kind.SYNC})
    cleaner.pending_sync.run()
    cleaner.step()
    assert [log_dir for log_dir, _ in failures] == ["/data"]
    assert bases(log) == [0, 1, 2, 3, 4]


def test_a_dir_that_fails_during_a_step_is_dropped_without_harm() -> None:
    _, _, _, cleaner, _ = world()
    list(zip(range(2), steps(cleaner), strict=False))
    cleaner.remove_dir("/data")
    assert not cleaner.is_cleaning(ORDERS)
    assert cleaner.clean_up_to(ORDERS) is None


def test_a_dir_that_fails_while_the_next_log_is_chosen_takes_its_logs_along() -> None:
    # M-E5
    clock = HandClock()
    disk = SimulatedDisk(SeededRandom(1), wall_ms=clock.wall_ms)
    for log_dir, name in (("/x", "a-0"), ("/x", "b-0"), ("/y", "c-0")):
        disk.make_folder(log_dir)
        log = open_log(disk, COMPACTED, folder=f"{log_dir}/{name}", clock=clock)
        for value in (b"1", b"2"):
            put(log, (b"k", value))
            log.roll()
        log.flush()
    disk.write_atomically("/x/cleaner-offset-checkpoint", b"0\n1\nb 0 99\n")
    manager = manager_of(disk, "/x", "/y", clock=clock)
    for log in manager.logs.values():
        log.set_high_watermark(log.end_offset)
    assert manager.cleaner is not None
    disk.fail(1, errno.EIO, kinds={Kind.CREATE}, path="/x/cleaner-offset-checkpoint*", times=99)
    list(steps(manager.cleaner))
    other = TopicPartition("c", 0)
    assert list(manager.logs) == [other]
    assert contents(manager.logs[other]) == [(1, b"k", b"2")]


def test_options_come_from_the_brokers_settings() -> None:
    options = CleanerOptions.of(
        {
            "log.cleaner.enable": False,
            "log.cleaner.dedupe.buffer.size": 2**33,
            "log.cleaner.io.buffer.size": 100_000,
            "log.cleaner.io.buffer.load.factor": 0.5,
            "log.cleaner.io.max.bytes.per.second": 7.0,
            "log.cleaner.backoff.ms": 3,
        }
    )
    assert options == CleanerOptions(False, 2**33, 100_000, 0.5, 7.0, 3)
    assert options.limits.piece_bytes == 50_000
    assert options.limits.slots == (2**31 - 1) // 24
    assert options.limits.max_entries == options.limits.slots // 2


def test_a_buffer_without_room_for_one_key_is_refused() -> None:
    with pytest.raises(
        StorageRefused, match=r"log.cleaner.dedupe.buffer.size=20 .* has no room for a single key"
    ):
        cleaner_of(MemoryDisk(), HandClock(), dedupe_buffer_size=20)
