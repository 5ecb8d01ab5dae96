from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import BatchHeader, CorruptBatch
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.storage.log import log_files
from barnabas.storage.log.log import Log
from tests.storage.logs import (
    FOLDER,
    SMALL,
    T0,
    batches_of,
    end_transaction,
    files,
    offsets,
    open_log,
    read_all,
    transactional,
    write,
)

TINY = dataclasses.replace(SMALL, segment_bytes=300)


def path(offset: int, kind: str, suffix: str = "") -> str:
    return f"{FOLDER}/{log_files.of_offset(offset, kind, suffix)}"


def life(disk: Disk) -> Log:
    """Several segments, producers, aborted transactions, two leaders; closed cleanly."""
    log = open_log(disk, TINY)
    write(log, *[2] * 5)
    transactional(log, 5, 0, count=2)
    transactional(log, 6, 0)
    end_transaction(log, 5, commit=False)
    for number in range(5):
        write(log, 2, epoch=3, time=T0 + 1000 * number)
    log.flush()
    log.close()
    return log


def state(log: Log) -> tuple[object, ...]:
    return (
        log.end_offset,
        log.log_start_offset,
        log.first_unstable_offset,
        log.epochs.entries,
        sorted(entry.to_snapshot() for entry in log.producers.entries.values()),
        log.aborted_transactions(0, 10**6),
        [one.copy() for one in read_all(log)],
    )


def crashed(disk: Disk, recovery_point: int = 0, **how: Any) -> Log:
    return open_log(disk, TINY, clean=False, recovery_point=recovery_point, **how)


def test_recovery_from_nothing_but_the_batches_rebuilds_everything() -> None:  # M-E4
    disk = MemoryDisk()
    before = state(life(disk))
    whole = files(disk)
    for name in disk.names(FOLDER):
        if not name.endswith(".log"):
            disk.remove(f"{FOLDER}/{name}")
    log = crashed(disk)
    assert state(log) == before
    log.flush()
    log.close()
    rebuilt = files(disk)
    for name in whole:
        if not name.endswith(".snapshot"):
            assert rebuilt[name] == whole[name], name
    assert rebuilt[f"{log.end_offset:020d}.snapshot"] == whole[f"{log.end_offset:020d}.snapshot"]


@pytest.mark.parametrize("recovery_point", [0, 5, 11, 18, 24])
def test_recovery_from_any_point_gives_the_same(recovery_point: int) -> None:
    disk = MemoryDisk()
    before = state(life(disk))
    assert state(crashed(disk, recovery_point)) == before


def test_a_torn_tail_is_cut_wherever_it_is_torn(caplog: pytest.LogCaptureFixture) -> None:  # M-E4
    disk = MemoryDisk()
    log = life(disk)
    last = log.segments[-1].base_offset
    whole = files(disk)
    ends = [header.end for header in _headers(disk, last)]
    for cut in range(0, len(whole[f"{last:020d}.log"]), 7):
        for name, data in whole.items():
            disk.write_atomically(
                f"{FOLDER}/{name}", data[:cut] if name == f"{last:020d}.log" else data, sync=False
            )
        again = crashed(disk, last)
        kept = [end for end in ends if end <= cut]
        assert again.end_offset == last + 2 * len(kept)
        assert offsets(again) == [offset for offset in _all_offsets(log) if offset < again.end_offset]
        assert disk.size(path(last, log_files.LOG)) == (kept[-1] if kept else 0)


def _headers(disk: Disk, base: int) -> list[BatchHeader]:
    log = open_log(disk, TINY)
    segment = log.segments.floor(base)
    assert segment is not None
    return list(segment.headers())


def _all_offsets(log: Log) -> list[int]:
    return list(range(log.end_offset))


def test_a_flipped_bit_ends_the_log_there_and_later_segments_go() -> None:
    for seed in range(40):
        disk = MemoryDisk()
        log = life(disk)
        random = SeededRandom(seed)
        logs = [name for name in disk.names(FOLDER) if name.endswith(".log")]
        name = logs[random.integer(0, len(logs) - 1)]
        data = bytearray(disk.read_bytes(f"{FOLDER}/{name}"))
        position = random.integer(0, len(data) - 1)
        data[position] ^= 1 << random.integer(0, 7)
        disk.write_atomically(f"{FOLDER}/{name}", bytes(data))
        again = crashed(disk)
        found = offsets(again)
        assert found == list(range(again.end_offset))
        assert again.end_offset <= log.end_offset
        write(again, 1, epoch=9)
        assert offsets(again) == list(range(again.end_offset))


def test_later_segments_are_kept_aside_for_a_while() -> None:
    disk = MemoryDisk()
    log = life(disk)
    second = log.segments[1].base_offset
    data = bytearray(disk.read_bytes(path(second, log_files.LOG)))
    data[-1] ^= 1
    disk.write_atomically(path(second, log_files.LOG), bytes(data))
    again = crashed(disk)
    assert again.segments[-1].base_offset == second
    (deletion,) = again.take_file_deletions()
    assert log_files.of_offset(log.segments[2].base_offset, log_files.LOG, ".deleted") in deletion.names
    deletion.run()
    assert not [name for name in disk.names(FOLDER) if name.endswith(".deleted")]


def test_flushed_segments_are_not_read_again() -> None:
    disk = MemoryDisk()
    log = life(disk)
    data = bytearray(disk.read_bytes(path(0, log_files.LOG)))
    data[-1] ^= 1
    disk.write_atomically(path(0, log_files.LOG), bytes(data))
    again = crashed(disk, log.segments[2].base_offset)
    assert again.end_offset == log.end_offset
    assert disk.read_bytes(path(0, log_files.LOG)) == bytes(data)


def test_a_missing_or_damaged_index_is_rebuilt_after_a_clean_stop_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()
    before = state(life(disk))
    whole = files(disk)
    index = next(name for name in whole if name.endswith(".index"))
    transactions = next(name for name in whole if name.endswith(".txnindex"))
    disk.remove(f"{FOLDER}/{index}")
    disk.write_atomically(f"{FOLDER}/{transactions}", whole[transactions][:-3])
    with caplog.at_level(logging.WARNING):
        log = open_log(disk, TINY)
    assert "the offset index is missing" in caplog.text
    assert "not a multiple of 34" in caplog.text
    assert state(log) == before
    log.close()
    assert files(disk)[index] == whole[index]
    assert files(disk)[transactions] == whole[transactions]


def test_a_missing_time_index_becomes_an_empty_one() -> None:
    disk = MemoryDisk()
    life(disk)
    disk.remove(path(0, log_files.TIME_INDEX))
    open_log(disk, TINY)
    assert disk.size(path(0, log_files.TIME_INDEX)) == 0


def test_orphaned_indexes_and_deleted_files_are_removed() -> None:
    disk = MemoryDisk()
    before = state(life(disk))
    for name in (
        "00000000000000000777.index",
        "00000000000000000777.txnindex",
        "00000000000000000003.log.deleted",
    ):
        disk.write_atomically(f"{FOLDER}/{name}", b"x" * 34)
    disk.write_atomically(f"{FOLDER}/00000000000000000128-0000000001.checkpoint.deleted", b"of the Raft log")
    assert state(open_log(disk, TINY)) == before
    left = [name for name in disk.names(FOLDER) if "777" in name or "deleted" in name]
    assert left == ["00000000000000000128-0000000001.checkpoint.deleted"]


def test_an_unfinished_cleaning_is_forgotten_and_a_finished_one_completed() -> None:
    disk = MemoryDisk()
    log = life(disk)
    before = state(log)
    base, following = log.segments[1].base_offset, log.segments[2].base_offset
    half = disk.read_bytes(path(base, log_files.LOG))[:100]
    for kind in (log_files.LOG, log_files.OFFSET_INDEX, log_files.TIME_INDEX):
        disk.write_atomically(path(base, kind, ".cleaned"), half)
        disk.write_atomically(path(following, kind, ".swap"), half)
    assert state(open_log(disk, TINY)) == before
    assert not [name for name in disk.names(FOLDER) if name.endswith((".swap", ".cleaned"))]
    # Now the two segments were merged into one, whole and called .swap, when power failed.
    merged = disk.read_bytes(path(base, log_files.LOG)) + disk.read_bytes(path(following, log_files.LOG))
    disk.write_atomically(path(base, log_files.LOG, ".swap"), merged)
    for kind in (log_files.OFFSET_INDEX, log_files.TIME_INDEX):
        disk.write_atomically(path(base, kind, ".swap"), b"")
    again = open_log(disk, TINY)
    assert offsets(again) == _all_offsets(log)
    assert [segment.base_offset for segment in again.segments] == [
        segment.base_offset for segment in log.segments if segment.base_offset != following
    ]


def test_a_log_that_ends_before_its_start_offset_restarts_there(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    life(disk)
    with caplog.at_level(logging.WARNING):
        log = open_log(disk, TINY, log_start_offset=500, clean=False)
    assert "before its start offset 500" in caplog.text
    assert (log.log_start_offset, log.end_offset, log.size) == (500, 500, 0)
    assert log.epochs.entries == []
    assert log.take_file_deletions()
    write(log, 2)
    assert offsets(log) == [500, 501]


def test_what_was_recovered_is_flushed_where_flushes_hold_the_high_watermark_back() -> None:
    """F3: it counts as flushed, so that it can be read, and must last."""
    for seed in range(10):
        disk = SimulatedDisk(SeededRandom(seed))
        options = dataclasses.replace(SMALL, flush_messages=1)
        write(open_log(disk, options), 1, 2)
        disk.sync_folder("/data")
        disk.sync_folder("/")
        again = open_log(disk, options, clean=False)
        assert again.recovery_point == again.end_offset == 3
        assert disk.read_bytes(f"{FOLDER}/leader-epoch-checkpoint") == b"0\n1\n0 0\n", (
            "what is flushed has it"
        )
        disk.power_loss()
        disk.restart()
        assert open_log(disk, options, clean=False).end_offset == 3


def test_recovered_batches_are_not_flushed_unless_configured() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    write(open_log(disk), 1, 2)
    before = len(disk.journal)
    assert open_log(disk, clean=False).recovery_point == 0
    assert "sync" not in {operation.kind.value for operation in list(disk.journal)[before:]}


def test_what_recovery_has_read_is_checked_once_more_when_it_is_read_first() -> None:
    """F10: a byte turns after the recovery; only what this process wrote itself, or has served, is believed."""
    disk = MemoryDisk()
    write(open_log(disk), 1, 1)
    log = open_log(disk, clean=False)
    file = disk.open(path(0, ".log"))
    file.write_at(file.size // 2 - 1, b"?")
    with pytest.raises(CorruptBatch):
        log.read(0, 1, upper_bound=2)
    assert len(batches_of(log.read(1, 1, upper_bound=2))) == 1


def test_a_folder_of_another_kind_is_refused_untouched() -> None:
    disk = MemoryDisk()
    with pytest.raises(ValueError, match="move it elsewhere"):
        open_log(disk, folder="/data/lost+found")
    assert not disk.exists("/data")


def test_an_empty_folder_begins_at_the_log_start() -> None:
    log = open_log(log_start_offset=70)
    assert log.segments[0].base_offset == log.end_offset == 70


def test_damaged_leader_epochs_are_set_aside_and_rebuilt(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    before = state(life(disk))
    epochs = f"{FOLDER}/{log_files.LEADER_EPOCHS}"
    disk.write_atomically(epochs, b"0\n7\n0 0\n")
    with caplog.at_level(logging.WARNING):
        log = open_log(disk, TINY)
    assert "rebuilt from the log" in caplog.text
    assert state(log) == before
    assert disk.read_bytes(epochs) == b"0\n2\n0 0\n3 14\n"
    assert disk.read_bytes(epochs + ".damaged") == b"0\n7\n0 0\n"


def test_epochs_beyond_the_end_are_dropped() -> None:
    disk = MemoryDisk()
    log = life(disk)
    disk.write_atomically(f"{FOLDER}/{log_files.LEADER_EPOCHS}", b"0\n3\n0 0\n3 14\n9 24\n")
    assert log.end_offset == 24
    assert open_log(disk, TINY).epochs.entries == [(0, 0), (3, 14)]


def test_a_torn_last_batch_after_a_clean_stop_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    log = life(disk)
    last = path(log.segments[-1].base_offset, log_files.LOG)
    disk.write_atomically(last, disk.read_bytes(last)[:-5])
    with caplog.at_level(logging.WARNING):
        again = open_log(disk, TINY)
    assert "despite a clean shutdown" in caplog.text
    assert again.end_offset == log.end_offset - 2
    assert offsets(again) == list(range(again.end_offset))


def test_snapshots_of_another_history_are_not_believed() -> None:
    disk = MemoryDisk()
    log = life(disk)
    for name in disk.names(FOLDER):
        if name.endswith(".snapshot"):
            data = disk.read_bytes(f"{FOLDER}/{name}")
            disk.write_atomically(f"{FOLDER}/{name}", data[:-1] + bytes((data[-1] ^ 1,)))
    assert state(crashed(disk)) == state(log)


def test_a_folder_that_waits_for_deletion_is_left_alone() -> None:
    disk = MemoryDisk()
    life(disk).rename_folder("orders-0.0123456789abcdef0123456789abcdef-delete")
    folder = "/data/orders-0.0123456789abcdef0123456789abcdef-delete"
    before = files(disk, folder)
    log = open_log(disk, TINY, folder=folder, clean=False)
    assert (log.topic, log.partition) == ("orders", 0)
    assert files(disk, folder) == before
    log.delete()
    assert disk.names("/data") == []


def test_epochs_of_lost_batches_leave_the_file() -> None:
    """Batches of these epochs or earlier ones may follow: the append must not have to write the file."""
    disk = SimulatedDisk(SeededRandom(3))
    log = open_log(disk)
    for epoch in (0, 2, 3):
        write(log, 1, epoch=epoch)
    log.flush()
    checkpoint = f"{log.folder}/leader-epoch-checkpoint"
    assert disk.read_bytes(checkpoint) == b"0\n3\n0 0\n2 1\n3 2\n"
    disk.open(path(0, ".log")).truncate(0)
    recovered = crashed(disk)
    assert recovered.end_offset == 0
    assert disk.read_bytes(checkpoint) == b"0\n0\n"


def test_segments_given_up_by_recovery_do_not_come_back_before_a_flush_either() -> None:
    """The device happens to write the records that take their place, and the power fails before any flush."""
    for seed in range(20):
        disk = SimulatedDisk(SeededRandom(seed))
        log = open_log(disk)
        write(log, 1, 1)
        log.roll()
        write(log, 1)
        log.flush()
        disk.sync_folder("/")
        disk.open(path(0, ".log")).truncate(disk.size(path(0, ".log")) - 1)
        recovered = crashed(disk)
        assert offsets(recovered) == [0]
        write(recovered, 1)
        disk.open(path(0, ".log")).sync()
        disk.power_loss()
        disk.restart()
        assert offsets(crashed(disk)) == [0, 1], seed


def test_segments_given_up_by_recovery_do_not_come_back() -> None:
    # M-E4: the power fails again, after something new was written and flushed in their place.
    disk = SimulatedDisk(SeededRandom(3))
    log = open_log(disk)
    write(log, 1)
    log.flush()
    write(log, 1)
    log.roll()
    write(log, 1)
    disk.sync_folder(FOLDER)
    disk.open(path(2, ".log")).sync()
    disk.open(path(0, ".log")).truncate(disk.size(path(0, ".log")) - 1)
    recovered = crashed(disk, recovery_point=1)
    assert offsets(recovered) == [0]
    write(recovered, 3)
    recovered.flush()
    disk.power_loss()
    disk.restart()
    assert offsets(crashed(disk, recovery_point=1)) == [0, 1, 2, 3]


def test_after_a_leader_that_wrote_nothing_an_earlier_epoch_waits_for_no_sync() -> None:
    """The first batch after a restart wrote the leader epochs, and synced them, on the loop."""
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, 3)
    log.assign_epoch(2, 3)
    log.flush()
    log.close()
    log = open_log(disk)
    before = disk.read_bytes(f"{FOLDER}/leader-epoch-checkpoint")
    assert before == b"0\n2\n0 0\n2 3\n"
    for epoch, base_offset in [(1, 3), (2, 4)]:
        rows = [Record(base_offset, T0, b"k", b"v")]
        log.append_as_follower(build(rows, base_offset=base_offset, leader_epoch=epoch), epoch)
    assert disk.read_bytes(f"{FOLDER}/leader-epoch-checkpoint") == before
    assert log.epochs.entries == [(0, 0), (1, 3), (2, 4)]
    # A crash: the batches show that the file is wrong.
    assert open_log(disk, clean=False, recovery_point=3).epochs.entries == [(0, 0), (1, 3), (2, 4)]
