"""Compaction of a log with a million keys, a quarter of them written twice; and its longest slice."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage.cleaner.cleaner import CleanerOptions
from barnabas.storage.cleaner.cleaning_plan import dirty_range, plan
from barnabas.storage.cleaner.cleaning_round import CleaningRound
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from bench.registry import OURS, Contender, Workbench, row

KEYS = 1_000_000
RECORDS = KEYS + KEYS // 4
RECORDS_PER_BATCH = 150
VALUE = b"v" * 80
START_MS = 1_700_000_000_000
OPTIONS = LogOptions(cleanup_compact=True, cleanup_delete=False, segment_bytes=64 << 20)


def open_log(folder: Path) -> Log:
    log = Log.open(
        FolderDisk(),
        SystemClock(),
        str(folder),
        OPTIONS,
        random=SeededRandom(1),
        clean=True,
        recovery_point=RECORDS,
        log_start_offset=0,
    )
    log.set_high_watermark(log.end_offset)
    return log


def fill(folder: Path) -> None:
    """Keys in scattered order, so that neighbours in the log are not neighbours in the map."""
    log = open_log(folder)
    step = 7_368_787  # a prime, so that every key occurs once before any occurs twice
    for start in range(0, RECORDS, RECORDS_PER_BATCH):
        numbers = range(start, min(start + RECORDS_PER_BATCH, RECORDS))
        records = [Record(n, START_MS + n, b"key-%010d" % (n * step % KEYS), VALUE) for n in numbers]
        log.append_as_follower(build(records, base_offset=start, leader_epoch=0), 0)
    log.roll()
    log.close()


def cleaning(bench: Workbench) -> Callable[[], list[float]]:
    """Cleans a fresh copy of the log; returns the duration of each slice in seconds."""
    source = bench.scratch / "source" / "bench-0"
    source.parent.mkdir(parents=True, exist_ok=True)
    fill(source)
    numbers = count()

    def run() -> list[float]:
        copy = bench.scratch / f"copy-{next(numbers)}" / "bench-0"
        shutil.copytree(source, copy, copy_function=os.link)
        log = open_log(copy)
        now_ms = log.clock.wall_ms()
        work = CleaningRound(
            plan(log, dirty_range(log, None, now_ms), now_ms), CleanerOptions().limits, now_ms
        )
        slices, before = [], time.perf_counter()
        for _ in work.steps():
            now = time.perf_counter()
            slices.append(now - before)
            before = now
        slices.append(time.perf_counter() - before)
        assert (work.stats.records_read, work.stats.records_kept) == (RECORDS, KEYS), work.stats
        log.close()
        shutil.rmtree(copy.parent)
        return slices

    return run


@row("compaction", "Compaction of 1 M keys, 1.25 M records of 100 B", unit="records/s", rounds=3)
def compaction(bench: Workbench) -> Mapping[str, Contender]:
    run = cleaning(bench)
    return {OURS: lambda: RECORDS / sum(run())}


@row(
    "compaction-slice",
    "Compaction: slice of work, 99th percentile",
    unit="ms",
    higher_is_better=False,
    rounds=3,
)
def compaction_slice(bench: Workbench) -> Mapping[str, Contender]:
    run = cleaning(bench)
    return {OURS: lambda: 1000 * sorted(slices := run())[len(slices) * 99 // 100]}
