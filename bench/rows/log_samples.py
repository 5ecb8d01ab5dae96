"""Shared by the rows about the log: opening one on real files, and batches to fill it."""

from __future__ import annotations

from pathlib import Path

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, patch_offsets
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions

MB = 1_000_000
# 148 records of about 100 bytes fill a batch of 16 KB, the default of producers.
RECORDS_IN_16_KB = 148
RECORDS_IN_1_MB = 9_400
OPTIONS = LogOptions(retention_ms=-1, max_message_bytes=2 << 20)


def open_log(folder: Path, *, clean: bool = True, options: LogOptions = OPTIONS) -> Log:
    log = Log.open(
        FolderDisk(),
        SystemClock(),
        str(folder),
        options,
        random=SeededRandom(1),
        clean=clean,
        recovery_point=0,
        log_start_offset=0,
    )
    log.set_high_watermark(log.end_offset)
    return log


def client_batch(count: int) -> bytearray:
    """A producer's batch: records of 100 bytes."""
    now_ms = SystemClock().wall_ms()
    return build([Record(n, now_ms + n // 100, b"k%05d" % n, b"v" * 90) for n in range(count)])


def write_segment(folder: Path, total_bytes: int) -> int:
    """Writes a segment of this size, without indexes: one batch of 16 KB repeatedly; returns the end offset.

    Offsets are not covered by the CRC of a batch, so only they are rewritten.
    """
    folder.mkdir(parents=True)
    batch = client_batch(RECORDS_IN_16_KB)
    per_write = 64
    block = bytearray(batch * per_write)
    offset = 0
    with (folder / f"{0:020}.log").open("wb") as file:
        for _ in range(total_bytes // len(block)):
            for start in range(0, len(block), len(batch)):
                patch_offsets(block, start, offset, 0)
                offset = BatchView(block, start).next_offset
            file.write(block)
    return offset


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log"))
