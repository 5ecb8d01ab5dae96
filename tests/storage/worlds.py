"""Compacted logs and whole log directories for the tests of the cleaner, the manager and the log tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage.cleaner.cleaner import CleanerOptions, LogCleaner
from barnabas.storage.cleaner.cleaning_plan import dirty_range, plan
from barnabas.storage.cleaner.cleaning_round import CleaningRound, RoundLimits, RoundStats
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from tests.storage.logs import T0, HandClock, open_log, read_all

Pair = tuple[bytes | None, bytes | None]
LIMITS = RoundLimits(dedupe_bytes=1 << 16, load_factor=0.9, piece_bytes=1000)
COMPACTED = LogOptions(
    cleanup_compact=True,
    cleanup_delete=False,
    segment_index_bytes=1200,
    index_interval_bytes=0,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)


def put(log: Log, *pairs: Pair, time: int = T0, **fields: Any) -> None:
    """One batch of keys and values, stored as it is, and replicated."""
    start = log.end_offset
    rows = [Record(start + index, time + index, key, value) for index, (key, value) in enumerate(pairs)]
    log.append_as_follower(build(rows, base_offset=start, leader_epoch=0, **fields), 0)
    log.set_high_watermark(log.end_offset)


def compacted_log(
    batches: Iterable[Sequence[Pair]] = (), *, options: LogOptions = COMPACTED, disk: Disk | None = None
) -> Log:
    """A log with one segment for each batch, and an empty active one."""
    clock = HandClock()
    log = open_log(MemoryDisk(clock=clock) if disk is None else disk, options, clock=clock)
    for pairs in batches:
        put(log, *pairs)
        log.roll()
    return log


def clean(log: Log, clean_up_to: int | None = None, limits: RoundLimits = LIMITS) -> RoundStats:
    """One whole round."""
    now_ms = log.clock.wall_ms()
    work = CleaningRound(plan(log, dirty_range(log, clean_up_to, now_ms), now_ms), limits, now_ms)
    for _ in work.steps():
        pass
    return work.stats


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of the records that a consumer sees, control records aside."""
    return [
        (record.offset, record.key, record.value)
        for batch in read_all(log)
        if not batch.is_control
        for record in batch.records()
    ]


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def manager_of(
    disk: Disk,
    *paths: str,
    clock: HandClock | None = None,
    options: LogOptions = COMPACTED,
    cleaner: CleanerOptions | None = None,
) -> LogManager:
    """A manager of these directories, opened."""
    dirs = LogDirs(disk, paths or ("/data",))
    dirs.open()
    manager = LogManager(
        disk, clock or HandClock(), SeededRandom(3), dirs, lambda topic: options, cleaner_options=cleaner
    )
    manager.open()
    return manager


def cleaner_of(disk: Disk, clock: HandClock, *logs: Log, **fields: Any) -> tuple[LogCleaner, list[Any]]:
    """A cleaner of these logs, and the failures it reports."""
    failures: list[object] = []
    by_partition = {TopicPartition(log.topic, log.partition): log for log in logs}
    cleaner = LogCleaner(
        disk,
        clock,
        CleanerOptions(**fields),
        by_partition,
        on_failure=lambda log_dir, error: failures.append((log_dir, error)),
    )
    cleaner.add_dir("/data")
    return cleaner, failures


def steps(cleaner: LogCleaner) -> Iterator[int]:
    """Step until the cleaner wants to rest."""
    while (delay_ms := cleaner.step()) == 0:
        yield delay_ms
