"""A disk in memory, a clock that stands until it is moved, and logs on them: what the tests of this room share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, batches
from barnabas.runtime.chance import SeededRandom
from barnabas.runtime.disk import Disk
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.storage.log import Log
from barnabas.storage.options import LogOptions

START_MS = 1_700_000_000_000
DAY_MS = 24 * 3600 * 1000


class StandingClock:
    """Wall and monotonic time that move together, by hand."""

    def __init__(self, wall_ms: int = START_MS) -> None:
        self._start_ms = wall_ms
        self._elapsed_ns = 10**12

    def wall_ms(self) -> int:
        return self._start_ms + self._elapsed_ns // 10**6 - 10**6

    def monotonic_ns(self) -> int:
        return self._elapsed_ns

    def forward(self, ms: int) -> None:
        self._elapsed_ns += ms * 10**6


def memory_disk(clock: StandingClock) -> MemoryDisk:
    return MemoryDisk(clock=clock)


def open_log(
    disk: Disk, clock: StandingClock, options: LogOptions, folder: str = "/data/topic-0", **how: int
) -> Log:
    """A log, new or as it was left cleanly."""
    disk.make_folder(folder)
    return Log.open(
        disk,
        clock,
        folder,
        options,
        random=SeededRandom(1),
        clean=True,
        recovery_point=how.get("recovery_point", 0),
        log_start_offset=how.get("log_start_offset", 0),
    )


def append(log: Log, *batch: bytes | bytearray) -> None:
    """Append finished batches as a follower does, so that producers and times are as the test has them."""
    for one in batch:
        log.append_as_follower(one, 0)
    log.advance_high_watermark(log.end_offset)


def plain(log: Log, pairs: Iterable[tuple[bytes | None, bytes | None]], timestamp: int, **fields: object) -> bytearray:
    """A batch that follows the log's end."""
    records = [
        Record(log.end_offset + index, timestamp + index, key, value)
        for index, (key, value) in enumerate(pairs)
    ]
    return build(records, base_offset=log.end_offset, leader_epoch=0, **fields)  # type: ignore[arg-type]


def stored(log: Log) -> list[BatchView]:
    """Every batch of the log, in order."""
    return [batch for segment in log.segments for _, data in segment.chunks() for batch in batches(data)]


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that is not a control record."""
    return [
        (record.offset, record.key, record.value)
        for batch in stored(log)
        if not batch.is_control
        for record in batch.records()
    ]


def bases(log: Log) -> Sequence[int]:
    return [segment.base_offset for segment in log.segments]
