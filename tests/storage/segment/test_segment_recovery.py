from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.log import log_files
from barnabas.storage.log.log import Log
from tests.storage.logs import FOLDER, SMALL, T0, offsets, open_log, read_all, write

PATH = f"{FOLDER}/{log_files.of_offset(0, log_files.LOG)}"


def logged(*first_offsets: int) -> MemoryDisk:
    """A log of batches of one record each, at these offsets; not closed."""
    disk = MemoryDisk()
    log = open_log(disk)
    for offset in first_offsets:
        log.append_as_follower(build([Record(offset, T0, b"k", b"v")], leader_epoch=0), 0)
    return disk


def crashed(disk: MemoryDisk, **options: Any) -> Log:
    return open_log(disk, dataclasses.replace(SMALL, **options), clean=False)


def set_offset(disk: MemoryDisk, number: int, offset: int) -> None:
    """Overwrite a batch's base offset, which its CRC does not cover."""
    data = bytearray(disk.read_bytes(PATH))
    struct.pack_into(">q", data, number * len(data) // 5, offset)
    disk.write_atomically(PATH, bytes(data))


@pytest.mark.parametrize(
    ("number", "offset", "kept"),
    [(0, 700, 0), (2, 700, 2), (3, 3 + 2**20, 3), (4, 700, 4), (2, 1, 2), (3, 0, 3), (4, 2**40, 4)],
)
def test_a_batch_with_a_false_offset_ends_the_log(number: int, offset: int, kept: int) -> None:
    disk = logged(0, 1, 2, 3, 4)
    set_offset(disk, number, offset)
    log = crashed(disk)
    assert offsets(log) == list(range(kept))
    assert log.end_offset == kept


def test_gaps_that_compaction_leaves_are_kept() -> None:
    assert [one.base_offset for one in read_all(crashed(logged(0, 5, 9, 100), cleanup_compact=True))] == [
        0,
        5,
        9,
        100,
    ]
    # Once compacted, now kept by time: gaps are confirmed by what follows them.
    assert [one.base_offset for one in read_all(crashed(logged(0, 5, 9, 10)))] == [0, 5, 9, 10]


def test_a_hole_between_segments_ends_the_log_unless_gaps_are_everywhere() -> None:
    disk = MemoryDisk()
    log = open_log(disk, dataclasses.replace(SMALL, segment_bytes=200))
    write(log, *[2] * 6)
    first = f"{FOLDER}/{log_files.of_offset(0, log_files.LOG)}"
    disk.write_atomically(first, disk.read_bytes(first)[:97])  # its second batch never reached the disk
    assert offsets(crashed(disk)) == [0, 1]


@pytest.mark.parametrize("position", range(61))
def test_no_flipped_bit_in_a_header_is_taken_for_good(position: int) -> None:
    for bit in range(8):
        disk = logged(0, 1, 2, 3, 4)
        data = bytearray(disk.read_bytes(PATH))
        size = len(data) // 5
        data[2 * size + position] ^= 1 << bit
        disk.write_atomically(PATH, bytes(data))
        log = crashed(disk)
        if 12 <= position < 16:  # the leader epoch: outside the CRC, and nothing contradicts it
            assert offsets(log) == [0, 1, 2, 3, 4]
        else:
            assert offsets(log) == [0, 1]
