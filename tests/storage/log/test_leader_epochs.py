from __future__ import annotations

import errno

import pytest

from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.log.leader_epochs import UNDEFINED_END, EpochEnd, EpochEntry, LeaderEpochs
from barnabas.storage.refused import DamagedFile

PATH = "/d/leader-epoch-checkpoint"


def epochs_of(disk: MemoryDisk, *entries: tuple[int, int]) -> LeaderEpochs:
    disk.make_folder("/d")
    epochs = LeaderEpochs(disk, "/d")
    epochs.load()
    for entry in entries:
        epochs.assign(*entry)
    return epochs


def test_the_file_is_empty_at_first_and_has_version_count_and_lines_then() -> None:  # M-D7
    disk = MemoryDisk()
    epochs = epochs_of(disk)
    assert disk.read_bytes(PATH) == b""
    epochs.assign(0, 0)
    epochs.write_out()
    assert disk.read_bytes(PATH) == b"0\n1\n0 0\n"
    epochs.assign(2, 17)
    epochs.write_out()
    assert disk.read_bytes(PATH) == b"0\n2\n0 0\n2 17\n"
    assert epochs_of(disk).entries == [EpochEntry(0, 0), EpochEntry(2, 17)]


@pytest.mark.parametrize(
    ("assigned", "kept"),
    [
        ([(0, 0), (0, 5)], [(0, 0)]),
        ([(0, 0), (1, 0)], [(1, 0)]),
        ([(0, 0), (1, 5), (2, 5)], [(0, 0), (2, 5)]),
        ([(0, 0), (1, 5), (2, 9), (3, 4)], [(0, 0), (3, 4)]),
        ([(5, 10), (5, 7)], [(5, 7)]),
        ([(5, 10), (6, 20), (5, 30)], [(5, 30)]),
    ],
)
def test_an_entry_replaces_those_with_a_later_start_or_epoch(
    assigned: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:  # M-D7
    disk = MemoryDisk()
    epochs = epochs_of(disk, *assigned)
    assert epochs.entries == kept
    epochs.write_out()
    assert epochs_of(disk).entries == kept


def test_where_an_epoch_ended() -> None:
    epochs = epochs_of(MemoryDisk(), (2, 10), (4, 20), (7, 30))
    assert epochs.end_offset_for(-1, 99) == UNDEFINED_END
    assert epochs.end_offset_for(7, 99) == EpochEnd(7, 99)
    assert epochs.end_offset_for(8, 99) == UNDEFINED_END
    assert epochs.end_offset_for(4, 99) == EpochEnd(4, 30)
    assert epochs.end_offset_for(3, 99) == EpochEnd(2, 20)
    assert epochs.end_offset_for(1, 99) == EpochEnd(1, 10)
    assert epochs_of(MemoryDisk()).end_offset_for(0, 99) == UNDEFINED_END


def test_which_epoch_wrote_an_offset() -> None:
    epochs = epochs_of(MemoryDisk(), (2, 10), (4, 20))
    assert [epochs.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 99)] == [None, 2, 2, 4, 4]


def test_an_epoch_above_those_of_the_file_waits_for_the_flush() -> None:
    """A crash before it has the records of that epoch read again, which restores it."""
    disk = MemoryDisk()
    epochs = epochs_of(disk, (4, 0), (7, 30))
    assert disk.read_bytes(PATH) == b""
    epochs.write_out()
    epochs.assign(8, 40)
    assert epochs_of(disk).entries == [(4, 0), (7, 30)]
    epochs.truncate_from_end(25)
    # Records of epoch 5 would not show that epoch 7 was removed.
    epochs.assign(5, 25)
    assert epochs_of(disk).entries == [(4, 0), (5, 25)]


def test_truncation_is_written_with_the_next_leader_or_at_the_close() -> None:
    disk = MemoryDisk()
    epochs = epochs_of(disk, (2, 10), (4, 20), (7, 30))
    epochs.write_out()
    epochs.truncate_from_end(20)
    assert epochs.entries == [(2, 10)]
    epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15)]
    assert epochs_of(disk).entries == [(2, 10), (4, 20), (7, 30)]
    epochs.start_is_durable(15)
    epochs.write_out()
    assert epochs_of(disk).entries == [(2, 15)]
    epochs.truncate_from_end(15)
    epochs.assign(9, 15)
    epochs.write_out()
    assert epochs_of(disk).entries == [(9, 15)]
    assert epochs.latest_epoch == 9
    epochs.clear()
    assert disk.read_bytes(PATH) == b"0\n0\n"


def test_the_start_moves_over_several_epochs_to_the_last_of_them() -> None:
    epochs = epochs_of(MemoryDisk(), (2, 10), (4, 20), (7, 30))
    epochs.truncate_from_start(5)
    assert epochs.entries == [(2, 10), (4, 20), (7, 30)]
    epochs.truncate_from_start(25)
    assert epochs.entries == [(4, 25), (7, 30)]


@pytest.mark.parametrize("damaged", [b"0\n1\n", b"0\n1\nx 0\n", b"9\n0\n", b"0\n1\n-3 0\n", b"\xff\xfe"])
def test_a_damaged_file_is_refused_here(damaged: bytes) -> None:
    disk = MemoryDisk()
    disk.make_folder("/d")
    disk.write_atomically(PATH, damaged)
    with pytest.raises(DamagedFile):
        epochs_of(disk)


def test_an_epoch_that_could_not_be_written_is_written_at_the_next_try() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    disk.make_folder("/log")
    epochs = LeaderEpochs(disk, "/log")
    epochs.load()
    epochs.assign(5, 2)
    epochs.write_out()
    disk.fail(1, errno.ENOSPC, kinds=(Kind.CREATE,))
    with pytest.raises(OSError, match="No space left"):
        epochs.assign(3, 0)
    assert epochs.entries == [(5, 2)]
    epochs.assign(3, 0)
    again = LeaderEpochs(disk, "/log")
    again.load()
    assert [tuple(entry) for entry in again.entries] == [(3, 0)]


def test_batches_show_that_an_epoch_of_the_file_has_gone() -> None:
    """A leader that wrote nothing restarted; what follows is of an earlier epoch, and waits for no sync."""
    disk = MemoryDisk()
    epochs_of(disk, (4, 0), (7, 30)).write_out()
    epochs = epochs_of(disk)
    epochs.truncate_from_end(30)
    batches = [(5, 30), (5, 33), (7, 35), (7, 36)]
    for epoch, base_offset in batches:
        epochs.assign(epoch, base_offset)
    assert epochs_of(disk).entries == [(4, 0), (7, 30)], "nothing was written"
    again = epochs_of(disk)
    for epoch, base_offset in [(4, 20), *batches]:
        again.restore(epoch, base_offset)
    assert again.entries == epochs.entries == [(4, 0), (5, 30), (7, 35)]


def test_a_later_epoch_before_the_log_start_is_written_at_once() -> None:
    """Batches of epoch 5 do not begin where the file has an entry: they would be taken for epoch 7."""
    disk = MemoryDisk()
    epochs_of(disk, (4, 0), (7, 30)).write_out()
    epochs = epochs_of(disk)
    epochs.truncate_from_start(50)
    epochs.assign(5, 50)
    assert epochs_of(disk).entries == [(4, 0), (5, 50)]


def test_epochs_of_deleted_records_stay_on_file_until_the_records_cannot_come_back() -> None:
    """Otherwise epoch 2 would seem to end at 35 after a crash, and not at 20."""
    disk = MemoryDisk()
    epochs = epochs_of(disk, (2, 10), (4, 20), (7, 30))
    epochs.write_out()
    epochs.truncate_from_start(25)
    epochs.truncate_from_start(35)
    epochs.assign(8, 40)
    epochs.write_out()
    assert epochs.entries == [(7, 35), (8, 40)]
    again = epochs_of(disk)
    assert again.entries == [(2, 10), (4, 20), (7, 30), (8, 40)]
    assert again.end_offset_for(2, 50) == EpochEnd(2, 20)
    epochs.start_is_durable(25)
    epochs.write_out()
    assert epochs_of(disk).entries == [(4, 25), (7, 30), (8, 40)]
    epochs.start_is_durable(35)
    epochs.write_out()
    assert epochs_of(disk).entries == epochs.entries == [(7, 35), (8, 40)]


@pytest.mark.parametrize(
    ("end_offset", "kept"), [(50, [(2, 10), (4, 20)]), (20, [(2, 10)]), (35, [(2, 10), (4, 20)])]
)
def test_a_truncation_also_removes_epochs_of_deleted_records(
    end_offset: int, kept: list[tuple[int, int]]
) -> None:
    disk = MemoryDisk()
    epochs = epochs_of(disk, (2, 10), (4, 20))
    epochs.truncate_from_start(35)
    epochs.truncate_from_end(end_offset)
    epochs.write_out()
    assert epochs_of(disk).entries == kept
    epochs.assign(9, end_offset)
    epochs.write_out()
    assert epochs_of(disk).entries == [*kept, (9, end_offset)]


def test_an_earlier_log_start_in_the_file_is_no_reason_to_write_it() -> None:
    disk = MemoryDisk()
    epochs_of(disk, (4, 0), (7, 30)).write_out()
    epochs = epochs_of(disk)
    epochs.truncate_from_end(30)
    epochs.truncate_from_start(15)
    epochs.assign(5, 30)
    again = epochs_of(disk)
    assert again.entries == [(4, 0), (7, 30)]
    again.restore(5, 30)
    again.truncate_from_start(15)
    assert again.entries == epochs.entries == [(4, 15), (5, 30)]


def test_one_damaged_epoch_of_a_batch_restores_nothing() -> None:
    """The CRC of a batch does not cover its leader epoch."""
    epochs = epochs_of(MemoryDisk(), (4, 0), (7, 30))
    for epoch, base_offset in [(4, 20), (7, 30), (3, 32), (7, 33), (-1, 34)]:
        epochs.restore(epoch, base_offset)
    assert epochs.entries == [(4, 0), (7, 30)]


def test_what_the_file_has_already_is_not_written_again() -> None:
    """A broker that starts with ten thousand empty logs forgets their leaders, and finds the same again."""
    disk = MemoryDisk()
    epochs_of(disk, (0, 0)).write_out()
    epochs = epochs_of(disk)
    epochs.truncate_from_end(0)
    disk.remove(PATH)
    epochs.assign(0, 0)
    epochs.write_out()
    assert not disk.exists(PATH)
    assert epochs.entries == [(0, 0)]
    epochs.assign(1, 0)
    epochs.write_out()
    assert disk.read_bytes(PATH) == b"0\n1\n1 0\n"
