"""Finding the batch of an offset in a segment of 1 GB with an index entry for each batch."""

from __future__ import annotations

import os
import random
import struct
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping

from barnabas.storage.log.log import Log
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.log_samples import MB, open_log, write_segment

LOG_BYTES = 1000 * MB
LOOKUPS = 50_000
CEILING = "bisection in memory, then one pread"
ENTRY = struct.Struct(">ii")
HEADER_BYTES = 61


def rate(find: Callable[[int], object], targets: list[int]) -> float:
    started = time.perf_counter()
    for target in targets:
        find(target)
    return len(targets) / (time.perf_counter() - started)


def prepared(bench: Workbench) -> Log:
    folder = bench.scratch / "bench-0"
    write_segment(folder, LOG_BYTES)
    log = open_log(folder, clean=False)
    bench.stack.callback(log.abandon)
    return log


def plain_search(bench: Workbench, log: Log) -> Callable[[int], object]:
    """The minimum of any search: the index as an array, and the batch header that it points to."""
    path = bench.scratch / "bench-0" / f"{0:020}"
    entries = list(ENTRY.iter_unpack(path.with_suffix(".index").read_bytes()))
    offsets = [offset for offset, _ in entries]
    descriptor = os.open(path.with_suffix(".log"), os.O_RDONLY)
    bench.stack.callback(os.close, descriptor)

    def find(offset: int) -> bytes:
        at = bisect_right(offsets, offset) - 1
        return os.pread(descriptor, HEADER_BYTES, entries[at][1] if at >= 0 else 0)

    return find


@row("log-index-random", "Look-ups by offset, random, segment of 1 GB", unit="look-ups/s", against=CEILING)
def random_lookups(bench: Workbench) -> Mapping[str, Contender]:
    log = prepared(bench)
    draw = random.Random(7)
    targets = [draw.randrange(log.end_offset) for _ in range(LOOKUPS)]
    segment, plain = log.active, plain_search(bench, log)
    return {OURS: lambda: rate(segment.locate, targets), CEILING: lambda: rate(plain, targets)}


@row(
    "log-index-tail", "Look-ups by offset, near the end, segment of 1 GB", unit="look-ups/s", against=CEILING
)
def tail_lookups(bench: Workbench) -> Mapping[str, Contender]:
    log = prepared(bench)
    draw = random.Random(7)
    targets = [log.end_offset - 1 - draw.randrange(log.end_offset // 200) for _ in range(LOOKUPS)]
    segment, plain = log.active, plain_search(bench, log)
    return {OURS: lambda: rate(segment.locate, targets), CEILING: lambda: rate(plain, targets)}
