"""Logs on a disk in memory or a simulated one, with a clock that the test moves: for the tests of the log itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.batch.build import build
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, batches
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.log_reader import ReadResult
from barnabas.storage.producers.producer_append import AppendOrigin

T0 = 1_700_000_000_000
FOLDER = "/data/orders-0"
# Small indexes: a simulated disk holds every byte of a file, holes too.
SMALL = LogOptions(segment_index_bytes=1200, index_interval_bytes=0, message_timestamp_after_max_ms=2**62)


class HandClock:
    """Wall and monotonic time, moved by hand."""

    def __init__(self, now_ms: int = T0) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


def open_log(
    disk: Disk | None = None,
    options: LogOptions = SMALL,
    *,
    folder: str = FOLDER,
    clock: HandClock | None = None,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int | None = None,
    gaps_end: int = 0,
) -> Log:
    """A log in a folder of this disk, new or as it was left."""
    return Log.open(
        MemoryDisk() if disk is None else disk,
        HandClock() if clock is None else clock,
        folder,
        options,
        random=SeededRandom(7),
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        gaps_end=gaps_end,
    )


def records(values: Iterable[bytes], time: int = T0) -> list[Record]:
    return [Record(index, time + index, b"k", value) for index, value in enumerate(values)]


def batch(count: int = 1, time: int = T0, size: int = 10, **fields: Any) -> bytearray:
    """What a client sends: offsets from 0 on."""
    return build(records([b"v" * size] * count, time), **fields)


def write(log: Log, *counts: int, epoch: int = 0, time: int = T0) -> None:
    """One batch for each count, all replicated."""
    for count in counts:
        log.append_as_leader(batch(count, time), epoch)
    log.set_high_watermark(log.end_offset)


def transactional(
    log: Log, producer_id: int, sequence: int, count: int = 1, epoch: int = 0, time: int = T0
) -> None:
    """Records of a transaction that its coordinator has confirmed."""
    guard = log.start_verification(producer_id, sequence, epoch)
    data = batch(
        count, time, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    log.append_as_leader(data, 0, verification=guard)


def end_transaction(
    log: Log, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, time: int = T0
) -> None:
    marker = build_marker(
        EndTransactionMarker(commit, coordinator_epoch),
        timestamp=time,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)


def read_all(log: Log) -> list[BatchView]:
    """Every batch from the log start on, each checked, as a consumer that follows its offsets gets them."""
    found: list[BatchView] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        got = batches_of(log.read(offset, 1 << 20, upper_bound=log.end_offset))
        if not got:
            break
        assert got[-1].next_offset > offset
        offset = got[-1].next_offset
        found += got
    assert all(one.crc_ok() for one in found)
    return found


def offsets(log: Log) -> list[int]:
    return [record.offset for one in read_all(log) for record in one.records()]


def batches_of(result: ReadResult) -> list[BatchView]:
    return [] if result.slice is None else list(batches(result.slice.read()))


def files(disk: Disk, folder: str = FOLDER) -> dict[str, bytes]:
    return {name: disk.read_bytes(f"{folder}/{name}") for name in disk.names(folder)}
