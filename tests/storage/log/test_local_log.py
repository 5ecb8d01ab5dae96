from __future__ import annotations

import dataclasses
import errno

import pytest

from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk, SimulatedFile
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log import log_files
from barnabas.storage.log.log import Log
from barnabas.storage.segment.segment import Segment
from tests.storage.logs import (
    FOLDER,
    SMALL,
    T0,
    HandClock,
    batch,
    end_transaction,
    files,
    offsets,
    open_log,
    transactional,
    write,
)

TINY = dataclasses.replace(SMALL, segment_bytes=200)  # two batches of two records each


def names(disk: MemoryDisk, suffix: str = "") -> list[str]:
    return [name for name in disk.names(FOLDER) if name.endswith(suffix)]


def test_a_new_log_has_one_segment_with_room_in_its_indexes() -> None:  # M-E1
    disk = MemoryDisk()
    open_log(disk, dataclasses.replace(SMALL, segment_index_bytes=10 << 20))
    sizes = {name: disk.size(f"{FOLDER}/{name}") for name in disk.names(FOLDER)}
    assert sizes == {
        "00000000000000000000.index": 10485760,
        "00000000000000000000.log": 0,
        "00000000000000000000.timeindex": 10485756,
        "leader-epoch-checkpoint": 0,
    }


def test_rolling_seals_the_old_segment_and_writes_a_snapshot() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, 2, 3)
    assert log.roll().base_offset == 5
    assert log.roll().base_offset == 5  # an empty one serves
    assert names(disk, ".snapshot") == ["00000000000000000005.snapshot"]
    assert disk.size(f"{FOLDER}/00000000000000000000.index") == 8
    write(log, 1)
    assert offsets(log) == list(range(6))


def test_rolling_by_time_compares_the_records_times() -> None:
    log = open_log(options=dataclasses.replace(SMALL, segment_ms=60_000))
    for number in range(6):
        write(log, 1, time=T0 + 45_000 * number)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


# Flushing


def test_a_flush_moves_the_recovery_point() -> None:
    log = open_log(options=TINY)
    write(log, *[2] * 6)
    base = log.active.base_offset
    assert log.flush_wanted() == base  # a rolled segment waits for its flush
    log.flush(base)
    assert log.recovery_point == base
    assert log.flush_wanted() is None
    assert log.flush_wanted() is None
    log.flush()
    assert log.recovery_point == log.end_offset
    assert log.plan_flush() is None


def test_a_flush_of_the_active_segment_syncs_its_records_and_a_crash_has_it_read_again() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk, TINY)
    write(log, 2)
    for kind in (".index", ".timeindex"):
        disk.fail(1, errno.EIO, kinds=[Kind.SYNC], path=f"{FOLDER}/{0:020d}{kind}", times=99)
    log.flush()
    assert (log.recovery_point, log.restart_point) == (2, 0)
    disk.clear_faults()
    write(log, *[2] * 6)
    log.flush()
    assert log.recovery_point == log.end_offset
    assert log.restart_point == log.active.base_offset > 0


def test_a_segment_rolled_during_its_flush_is_read_again_until_its_indexes_are_synced() -> None:
    log = open_log(SimulatedDisk(SeededRandom(1)))
    write(log, 2)
    plan = log.plan_flush()
    assert plan is not None
    log.roll()
    plan.run()
    log.flushed(plan)
    assert (log.recovery_point, log.restart_point, log.active.base_offset) == (2, 0, 2)
    assert log.is_closed_part_unflushed
    log.flush(log.active.base_offset)
    assert log.restart_point == 2


def test_a_segment_that_a_truncation_made_active_is_read_again_until_it_is_synced() -> None:
    log = open_log(SimulatedDisk(SeededRandom(1)))
    write(log, 2, 2)
    log.roll()
    log.truncate_to(2)
    write(log, 1)
    plan = log.plan_flush()
    assert plan is not None
    log.roll()
    plan.run()
    log.flushed(plan)
    plan.close()
    assert (log.recovery_point, log.restart_point) == (3, 0)


def test_a_segment_that_goes_is_not_kept_open_by_the_last_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk(SeededRandom(1))
    for all_at_once in (True, False):
        log = open_log(disk, folder=f"{FOLDER}{int(all_at_once)}")
        with monkeypatch.context() as patch:
            handles = Handles(patch, disk)
            write(log, 2)
            log.flush()
            kept = handles.open[-1]
            if all_at_once:
                log.truncate_fully_to(9)
            else:
                log.roll()
            assert kept not in handles.open


def test_flush_settings_are_honoured() -> None:
    clock = HandClock()
    log = open_log(options=dataclasses.replace(SMALL, flush_messages=3, flush_ms=1000), clock=clock)
    write(log, 2)
    assert log.flush_wanted() is None
    write(log, 1)
    assert log.flush_wanted() == 3
    log.flush()
    clock.now_ms += 5000
    assert log.flush_wanted() is None
    write(log, 1)
    assert log.flush_wanted() == 4
    log.flush()
    write(log, 1)
    assert log.flush_wanted() is None


def test_a_flush_runs_beside_appends_and_rolls() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TINY)
    write(log, 2, 2, 2)
    plan = log.plan_flush()
    assert plan is not None
    write(log, *[2] * 6)
    for segment in log.segments:
        segment.release()
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == 6


def test_a_flush_from_before_a_truncation_proves_nothing() -> None:
    log = open_log(options=TINY)
    write(log, *[2] * 5)
    plan = log.plan_flush()
    assert plan is not None
    log.truncate_to(4)
    write(log, *[2] * 5)
    plan.run()
    log.flushed(plan)
    assert log.recovery_point <= 4


def test_a_flush_from_before_a_move_proves_nothing() -> None:
    """The folder has been renamed when the flush syncs it."""
    log = open_log(options=TINY)
    write(log, *[2] * 5)
    plan = log.plan_flush()
    assert plan is not None
    log.rename_folder("orders-0.0123456789abcdef0123456789abcdef-future")
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == log.end_offset


class Handles:
    """Counts the open handles of a simulated disk, from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, disk: SimulatedDisk) -> None:
        self.open: list[object] = []
        real_open, real_close = disk.open, SimulatedFile.close

        def opened(path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
            file = real_open(path, create=create, writable=writable)
            self.open.append(file)
            return file

        def closed(file: SimulatedFile) -> None:
            if file in self.open:
                self.open.remove(file)
            real_close(file)

        monkeypatch.setattr(disk, "open", opened)
        monkeypatch.setattr(SimulatedFile, "close", closed)


def test_a_flush_that_cannot_be_planned_leaves_no_handle_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for nth in range(1, 9):
        disk = SimulatedDisk(SeededRandom(nth))
        log = open_log(disk, TINY)
        write(log, *[2] * 5)
        with monkeypatch.context() as patch:
            handles = Handles(patch, disk)
            disk.fail(nth, errno.EMFILE, kinds=[Kind.OPEN])
            with pytest.raises(StorageFailure, match="too many open files"):
                log.plan_flush()
            log.abandon()
            assert handles.open == []


def test_a_plan_that_is_never_run_can_be_closed_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk, TINY)
    write(log, *[2] * 5)
    with monkeypatch.context() as patch:
        handles = Handles(patch, disk)
        plan = log.plan_flush()
        assert plan is not None
        assert handles.open
        plan.close()
        assert handles.open == []
        disk.fail(1, errno.EIO, kinds=[Kind.SYNC], path="*.snapshot")
        with pytest.raises(StorageFailure, match="flushing failed"):
            log.flush()  # the snapshots are not forgotten with the plan
        assert handles.open == []
    assert log.recovery_point == 0


def test_a_segment_closed_after_a_flush_is_synced_by_the_next() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk)
    write(log, 2, 2)
    log.flush()
    disk.fail(1, errno.EIO, kinds=[Kind.SYNC, Kind.SYNC_FOLDER], times=99)
    log.roll()  # does not wait for the device
    disk.clear_faults()
    assert log.is_closed_part_unflushed
    assert log.flush_wanted() == log.recovery_point == 4
    disk.fail(1, errno.EIO, kinds=[Kind.SYNC], path=f"{FOLDER}/{0:020d}.timeindex")
    with pytest.raises(StorageFailure, match="flushing failed"):
        log.flush()
    log.flush()
    assert log.flush_wanted() is None
    assert log.plan_flush() is None


def test_a_segment_that_goes_before_it_is_synced_is_not_waited_for() -> None:
    log = open_log()
    write(log, 2, 2)
    log.flush()
    log.roll()
    log.remove_segments(log.segments[:1], "a test says so")
    assert log.plan_flush() is None
    assert not log.is_closed_part_unflushed


@pytest.mark.parametrize("is_point_of_before", [False, True])
def test_a_preallocated_segment_is_cut_again_after_a_power_loss(is_point_of_before: bool) -> None:
    """F9: a roll does not sync it; whichever recovery point was written, it is read again."""
    for seed in range(20):
        disk = SimulatedDisk(SeededRandom(seed))
        disk.make_folder("/data")
        disk.sync_folder("/")
        options = dataclasses.replace(SMALL, preallocate=True, segment_bytes=2000)
        log = open_log(disk, options)
        write(log, 2, 2)
        log.flush()
        before = log.restart_point
        syncs = [one for one in disk.journal if one.kind is Kind.SYNC]
        log.roll()
        assert [one for one in disk.journal if one.kind is Kind.SYNC] == syncs
        after = log.restart_point
        disk.power_loss()
        disk.restart()
        again = open_log(disk, options, clean=False, recovery_point=before if is_point_of_before else after)
        assert again.segments[0].size == log.segments[0].size
        assert again.end_offset == 4


# What a power loss must not take


def disk_with_power(seed: int) -> SimulatedDisk:
    disk = SimulatedDisk(SeededRandom(seed))
    disk.make_folder("/data")
    disk.sync_folder("/")
    return disk


def test_a_log_restarted_at_its_start_offset_stays_there() -> None:
    """Only the name of its first segment says so: the checkpoint has only starts within a segment."""
    for seed in range(20):
        disk = disk_with_power(seed)
        disk.make_folder(FOLDER)
        disk.sync_folder("/data")
        open_log(disk, TINY, clean=False, recovery_point=7, log_start_offset=7)
        disk.power_loss()
        disk.restart()
        assert open_log(disk, TINY, clean=False, recovery_point=7).end_offset == 7


def test_the_first_transaction_aborted_in_a_flushed_segment_is_known_after_a_clean_stop() -> None:
    for seed in range(20):
        disk = disk_with_power(seed)
        log = open_log(disk)
        write(log, 2)
        log.flush()
        transactional(log, 4, 0)
        end_transaction(log, 4, commit=False)
        log.flush()
        log.close()
        disk.power_loss()
        disk.restart()
        assert [one.producer_id for one in open_log(disk).aborted_transactions(0, 5)] == [4]


def test_an_abort_that_a_crash_took_does_not_come_back_after_a_clean_stop() -> None:
    """The index of aborted transactions may have reached the disk though the marker did not."""
    taken = 0
    for seed in range(60):
        disk = disk_with_power(seed)
        log = open_log(disk)
        write(log, 2)
        log.flush()
        transactional(log, 5, 0)
        end_transaction(log, 5, commit=False)
        disk.power_loss()
        disk.restart()
        log = open_log(disk, clean=False)
        if log.end_offset == 4:
            continue
        taken += 1
        if log.end_offset == 2:
            transactional(log, 5, 0)
        end_transaction(log, 5, commit=True)
        log.flush()
        log.close()
        disk.power_loss()
        disk.restart()
        assert open_log(disk).aborted_transactions(0, 4) == []
    assert taken > 20


def test_a_snapshot_of_recovery_is_synced_by_the_next_flush() -> None:
    disk = disk_with_power(1)
    log = open_log(disk)
    log.append_as_leader(batch(3, producer_id=8, producer_epoch=2, base_sequence=0), 0)
    log.abandon()
    again = open_log(disk, clean=False)
    disk.fail(1, errno.EIO, kinds=[Kind.SYNC], path=f"{FOLDER}/{3:020d}.snapshot")
    with pytest.raises(StorageFailure, match="flushing failed"):
        again.flush()


# Removing


def test_removed_segments_wait_under_another_name_and_go_when_it_is_time() -> None:
    disk = MemoryDisk()
    clock = HandClock()
    log = open_log(disk, TINY, clock=clock)
    write(log, *[2] * 8)
    first, second = log.segments[:2]
    slice_ = log.read(0, 10_000, upper_bound=16).slice
    assert log.remove_segments([first, second], "a test says so") == 2
    assert log.log_start_offset == log.segments[0].base_offset > 0
    renamed = names(disk, ".deleted")
    assert f"{second.base_offset:020d}.snapshot.deleted" in renamed
    assert f"{first.base_offset:020d}.log.deleted" in renamed
    (deletion,) = log.take_file_deletions()
    assert deletion.due_ms == T0 + TINY.file_delete_delay_ms
    assert log.take_file_deletions() == []
    log.rename_folder("orders-0.0123456789abcdef0123456789abcdef-delete")
    deletion.run()
    assert not [name for name in disk.names(log.folder) if name.endswith(".deleted")]
    deletion.run()
    assert slice_ is not None
    assert len(slice_.read()) == first.size  # a reader that has started continues


def test_a_log_of_which_all_goes_is_rolled_first() -> None:
    log = open_log(options=TINY)
    write(log, *[2] * 5)
    assert log.remove_segments(list(log.segments), "a test says so") == 3
    assert (log.log_start_offset, log.end_offset, log.size, len(log.segments)) == (10, 10, 0, 1)
    write(log, 1)
    assert offsets(log) == [10]


# Replacing


def cleaned(log: Log, group: list[Segment], keep: list[int]) -> Segment:
    """A segment as the cleaner makes it: some batches of a group, sealed and synced."""
    new = Segment.create(
        log.disk, log.clock, log.folder, group[0].base_offset, log.options, suffix=log_files.CLEANED
    )
    for segment in group:
        for _, data, headers in segment.pieces():
            for header in headers:
                if header.base_offset in keep:
                    start = header.position - headers[0].position
                    new.append(data[start : start + header.size], header.last_offset)
    new.become_inactive()
    new.sync()
    return new


def test_the_cleaner_swaps_segments() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TINY)
    write(log, *[2] * 9)
    group = log.segments[:3]
    new = cleaned(log, group, [2, 8])
    assert names(disk, ".cleaned")
    log.local.replace_segments([new], group)
    assert log.segments[0] is new
    assert [segment.base_offset for segment in log.segments] == [0, 12, 16]
    assert not names(disk, ".cleaned") + names(disk, ".swap")
    assert offsets(log) == [2, 3, 8, 9, *range(12, 18)]
    first = log.read(4, 1000, upper_bound=18)
    assert first.position == new.size // 2
    snapshots = names(disk, ".snapshot")
    assert snapshots == ["00000000000000000012.snapshot", "00000000000000000016.snapshot"]
    log.flush()
    log.close()
    assert offsets(open_log(disk, TINY)) == [2, 3, 8, 9, *range(12, 18)]


# The folder


def test_a_log_follows_its_folder() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TINY)
    write(log, 2, 2, 2)
    name = "orders-0.0123456789abcdef0123456789abcdef-future"
    log.rename_folder(name)
    assert (log.topic, log.partition, log.name) == ("orders", 0, name)
    assert disk.names("/data") == [name]
    write(log, *[2] * 5, epoch=1)
    log.flush()
    log.rename_folder("orders-0")
    assert offsets(log) == list(range(16))
    log.close()
    assert open_log(disk, TINY).epochs.entries == [(0, 0), (1, 6)]
    log.delete()
    assert not disk.exists(FOLDER)


def test_a_clean_close_trims_and_leaves_a_snapshot_and_changes_nothing_the_second_time() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TINY)
    write(log, *[2] * 5)
    transactional(log, 4, 0)
    end_transaction(log, 4, commit=False)
    log.flush()
    log.close()
    log.close()
    first = files(disk)
    assert "00000000000000000012.snapshot" in first
    assert all(len(data) < 100 for name, data in first.items() if name.endswith("index"))
    again = open_log(disk, TINY)
    assert again.recovery_point == again.end_offset == 12
    again.close()
    assert files(disk) == first


def test_an_idle_log_is_not_touched_by_start_and_stop() -> None:
    disk = MemoryDisk(clock=HandClock(5))
    log = open_log(disk)
    write(log, 2)
    log.flush()
    log.close()
    times = {name: disk.modified_ms(f"{FOLDER}/{name}") for name in disk.names(FOLDER)}
    disk.set_modified_ms(f"{FOLDER}/00000000000000000000.log", 1)
    open_log(disk).close()
    assert times.keys() == set(disk.names(FOLDER))
    assert disk.modified_ms(f"{FOLDER}/00000000000000000000.log") == 1


def test_producers_are_known_to_the_cleaner_and_expire() -> None:
    clock = HandClock()
    log = open_log(clock=clock)
    log.append_as_leader(batch(3, producer_id=8, producer_epoch=2, base_sequence=0), 0)
    transactional(log, 9, 0)
    end_transaction(log, 9, commit=True)
    assert log.last_records_of_producers() == {8: (2, 2), 9: (3, 0)}
    clock.now_ms += log.options.producer_id_expiration_ms + 5
    log.remove_expired_producers()
    assert log.last_records_of_producers() == {}


@pytest.mark.parametrize("jitter", [0, 1000])
def test_jitter_is_drawn_for_each_segment(jitter: int) -> None:
    log = open_log(options=dataclasses.replace(TINY, segment_jitter_ms=jitter))
    write(log, *[2] * 12)
    drawn = {segment.jitter_ms for segment in log.segments}
    assert (len(drawn) > 1) == bool(jitter)
    assert max(drawn) <= max(0, jitter - 1)
