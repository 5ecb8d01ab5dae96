"""A log of four short segments, and ways to damage its files: for the tests of damage."""

from __future__ import annotations

import dataclasses

from barnabas.runtime.disk.disk import Disk
from barnabas.storage.log import log_files
from barnabas.storage.log.log import Log
from tests.storage.logs import FOLDER, SMALL, T0, batches_of, open_log, write

# Three batches a segment, each with an index entry but the first.
SHORT = dataclasses.replace(SMALL, segment_bytes=260)
SEGMENTS = [0, 3, 6, 9]


def path(offset: int, kind: str = log_files.LOG) -> str:
    return f"{FOLDER}/{log_files.of_offset(offset, kind)}"


def flip(disk: Disk, name: str, position: int, mask: int = 1) -> None:
    data = bytearray(disk.read_bytes(name))
    data[position] ^= mask
    disk.write_atomically(name, bytes(data))


def stopped(disk: Disk) -> int:
    """Twelve batches of one record in four segments, a second apart; the size of a batch."""
    log = open_log(disk, SHORT)
    for number in range(12):
        write(log, 1, epoch=number // 4, time=T0 + 1000 * number)
    assert list(log.segments.base_offsets) == SEGMENTS
    log.flush()
    log.close()
    return log.segments[0].size // 3


def read(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[int]:
    return [one.base_offset for one in batches_of(log.read(offset, max_bytes, upper_bound=log.end_offset))]
