"""Reads a log from start to end, as a sequential consumer does; compared with a plain read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from barnabas.batch.view import BatchView
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.log_samples import MB, open_log, size_of, write_segment

LOG_BYTES = 512 * MB
FETCH_BYTES = 1 << 20
CEILING = "plain pread of the same ranges"


def prepare(bench: Workbench, fetch_bytes: int) -> tuple[Callable[[], float], Callable[[], float]]:
    """Fetches per second, with the log and plain; the log sends the data, which here means one copy."""
    folder = bench.scratch / "bench-0"
    write_segment(folder, LOG_BYTES)
    log = open_log(folder, clean=False)
    total = size_of(folder)

    def ours() -> float:
        fetches = read = offset = 0
        started = time.perf_counter()
        while offset < log.end_offset:
            got = log.read(offset, fetch_bytes, upper_bound=log.end_offset).slice
            assert got is not None
            data = got.read()
            last = len(data) - len(data) % batch_bytes
            offset = BatchView(data, last - batch_bytes).next_offset
            read += last
            fetches += 1
        assert read == total
        return fetches / (time.perf_counter() - started)

    def plain() -> float:
        descriptor = os.open(folder / f"{0:020}.log", os.O_RDONLY)
        fetches = position = 0
        started = time.perf_counter()
        while position < total:
            data = os.pread(descriptor, fetch_bytes, position)
            position += len(data) - len(data) % batch_bytes
            fetches += 1
        elapsed = time.perf_counter() - started
        os.close(descriptor)
        return fetches / elapsed

    first = log.read(0, 1, upper_bound=log.end_offset).slice
    assert first is not None
    batch_bytes = first.length
    bench.stack.callback(log.abandon)
    return ours, plain


@row("log-read", "Read a log in order, 1 MB a fetch, batches of 16 KB", unit="MB/s", against=CEILING)
def large_fetches(bench: Workbench) -> Mapping[str, Contender]:
    ours, plain = prepare(bench, FETCH_BYTES)
    return {OURS: lambda: ours() * FETCH_BYTES / MB, CEILING: lambda: plain() * FETCH_BYTES / MB}


@row("log-read-16k", "Read a log in order, one batch of 16 KB a fetch", unit="fetches/s", against=CEILING)
def small_fetches(bench: Workbench) -> Mapping[str, Contender]:
    ours, plain = prepare(bench, 20_000)
    return {OURS: ours, CEILING: plain}
