"""A leader's append to files: checks of batch and records, indexes, one write; against a plain write."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from bench.registry import OURS, Contender, Workbench, row
from bench.rows.log_samples import MB, RECORDS_IN_1_MB, RECORDS_IN_16_KB, client_batch, open_log

ROUND_BYTES = 256 * MB
MOST_APPENDS = 50_000
CEILING = "plain write of the same bytes"


def appends_per_second(folder: Path, batch: bytes) -> float:
    """To a new log; the buffer is refilled each time, as that of a connection."""
    log = open_log(folder / "bench-0")
    buffer = bytearray(batch)
    appends = min(ROUND_BYTES // len(batch), MOST_APPENDS)
    started = time.perf_counter()
    for _ in range(appends):
        buffer[:] = batch
        log.append_as_leader(buffer, 0)
    elapsed = time.perf_counter() - started
    log.abandon()
    shutil.rmtree(folder)
    return appends / elapsed


def writes_per_second(folder: Path, batch: bytes) -> float:
    folder.mkdir(parents=True)
    descriptor = os.open(folder / "plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    buffer = bytearray(batch)
    writes = min(ROUND_BYTES // len(batch), MOST_APPENDS)
    started = time.perf_counter()
    for _ in range(writes):
        buffer[:] = batch
        os.write(descriptor, buffer)
    elapsed = time.perf_counter() - started
    os.close(descriptor)
    shutil.rmtree(folder)
    return writes / elapsed


def contenders(bench: Workbench, records: int, unit: float | None) -> Mapping[str, Contender]:
    """Both contenders; `unit` is the amount per append, bytes by default."""
    batch = bytes(client_batch(records))
    worth = len(batch) / MB if unit is None else unit
    numbers = count()

    def fresh() -> Path:
        return bench.scratch / str(next(numbers))

    return {
        OURS: lambda: appends_per_second(fresh(), batch) * worth,
        CEILING: lambda: writes_per_second(fresh(), batch) * worth,
    }


@row("log-append-16k", "Append to a log, batches of 16 KB", unit="MB/s", against=CEILING)
def small_batches(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, RECORDS_IN_16_KB, None)


@row("log-append-1m", "Append to a log, batches of 1 MB", unit="MB/s", against=CEILING)
def large_batches(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, RECORDS_IN_1_MB, None)


@row(
    "log-append-records",
    "Append to a log, records of 100 B in batches of 1 MB",
    unit="records/s",
    against=CEILING,
)
def records(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, RECORDS_IN_1_MB, RECORDS_IN_1_MB)


@row("log-append-single", "Append to a log, batches of one record", unit="appends/s", against=CEILING)
def single_records(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, 1, 1)
