"""A log of 1,000 segments, nominally 1 TB, some hundred MB on disk: opening it, and seeking in it.

Memory and open files are counted too; compared with Apache Kafka's log class if the oracle is available.
Seeks are calls within one process, without requests to a broker.
"""

from __future__ import annotations

import gc
import json
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from barnabas.batch.build import build, build_empty
from barnabas.batch.records import Record
from barnabas.batch.view import LOG_OVERHEAD
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.log_samples import open_log

SEGMENTS = 1000
SEGMENT_BYTES = 1 << 30
# Each segment is a sequence of pairs: a large batch of which only the header is written, followed by a hole,
# and a small complete batch, which all searches target.
PAIRS = 16
OFFSETS_IN_HOLE = 999_999
OFFSETS_IN_PAIR = OFFSETS_IN_HOLE + 1
START_MS = 1_700_000_000_000
MS_BETWEEN_PAIRS = 10_000
SEEKS = 2000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
PROJECT = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("BARNABAS_ORACLE", PROJECT.parent / "shared" / "oracle" / "kafka"))
PROBE = PROJECT / "bench" / "java" / "ThousandSegments.java"
APACHE = "Apache Kafka 4.1.0"

# Version 1, the CRC-32C of what follows, no producer.
EMPTY_SNAPSHOT = bytes.fromhex("000148674bc700000000")


def target(number: int) -> tuple[int, int]:
    """Offset and timestamp of the record in the small batch with this number, over all segments."""
    return (number + 1) * OFFSETS_IN_PAIR - 1, START_MS + (number + 1) * MS_BETWEEN_PAIRS


def write_segment(folder: Path, number: int) -> None:
    base_offset = number * PAIRS * OFFSETS_IN_PAIR
    index, times = bytearray(), bytearray()
    position = 0
    with (folder / f"{base_offset:020}.log").open("wb") as file:
        for pair in range(PAIRS):
            offset, timestamp = target(number * PAIRS + pair)
            small = build([Record(offset, timestamp, b"key", b"value")], leader_epoch=0)
            hole = build_empty(
                offset - OFFSETS_IN_HOLE, offset - 1, leader_epoch=0, max_timestamp=timestamp - 1
            )
            length = SEGMENT_BYTES // PAIRS - len(small)
            struct.pack_into(">i", hole, 8, length - LOG_OVERHEAD)
            file.seek(position)
            file.write(hole)
            position += length
            file.seek(position)
            file.write(small)
            index += OFFSET_ENTRY.pack(offset - base_offset, position)
            times += TIME_ENTRY.pack(timestamp, offset - base_offset)
            position += len(small)
    (folder / f"{base_offset:020}.index").write_bytes(index)
    (folder / f"{base_offset:020}.timeindex").write_bytes(times)
    (folder / f"{base_offset:020}.snapshot").write_bytes(EMPTY_SNAPSHOT)


def write_log(folder: Path) -> None:
    """As after a clean shutdown."""
    folder.mkdir(parents=True)
    for number in range(SEGMENTS):
        write_segment(folder, number)
    end_offset = SEGMENTS * PAIRS * OFFSETS_IN_PAIR
    (folder / f"{end_offset:020}.snapshot").write_bytes(EMPTY_SNAPSHOT)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n", "utf-8")


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * PAGE_BYTES


def look(folder: Path) -> dict[str, float]:
    """Measures the cost of opening and some seeks."""
    draw = random.Random(5)
    seeks = [target(draw.randrange(SEGMENTS * PAIRS)) for _ in range(SEEKS)]
    open_log(folder).abandon()  # once to load code and warm the cache of names
    gc.collect()
    rss, files = rss_bytes(), len(os.listdir("/proc/self/fd"))
    started = time.perf_counter()
    log = open_log(folder)
    opened = time.perf_counter()
    for offset, _ in seeks:
        got = log.read(offset, 1, upper_bound=log.end_offset).slice
        assert got is not None
        assert got.length < 1000
    by_offset = time.perf_counter()
    for offset, timestamp in seeks:
        offset_and_time = log.offset_for_time(timestamp)
        assert offset_and_time is not None
        assert offset_and_time.offset == offset
    by_time = time.perf_counter()
    return {
        "open_ms": 1000 * (opened - started),
        "offset_seeks": SEEKS / (by_offset - opened),
        "time_seeks": SEEKS / (by_time - by_offset),
        "rss_mb": (rss_bytes() - rss) / 1e6,
        "open_files": len(os.listdir("/proc/self/fd")) - files,
    }


def look_apart(folder: Path, value: str) -> float:
    """In a separate process, which starts with little memory and few files."""
    command = [sys.executable, "-m", __name__, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    return float(json.loads(done.stdout)[value])


def apache_look(folder: Path, value: str) -> float:
    """The same with Apache Kafka's log class, warmed up by opening it once."""
    numbers = (SEGMENTS * PAIRS, OFFSETS_IN_PAIR, START_MS, MS_BETWEEN_PAIRS, SEEKS)
    command = [str(ORACLE), "-k", "4.1.0", "java", str(PROBE), str(folder), *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])[value])


def contenders(bench: Workbench, value: str) -> Mapping[str, Contender]:
    folder = bench.scratch / "bench-0"
    write_log(folder)
    contenders_by_name: dict[str, Contender] = {OURS: partial(look_apart, folder, value)}
    if ORACLE.exists():
        contenders_by_name[APACHE] = partial(apache_look, folder, value)
    return contenders_by_name


@row(
    "thousand-segments-open",
    "1,000 segments, 1 TB: open after a clean stop",
    unit="ms",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=3,
)
def opening(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "open_ms")


@row(
    "thousand-segments-offset",
    "1,000 segments, 1 TB: seek by offset",
    unit="seeks/s",
    rounds=3,
)
def by_offset(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "offset_seeks")


@row(
    "thousand-segments-time",
    "1,000 segments, 1 TB: seek by time",
    unit="seeks/s",
    rounds=3,
)
def by_time(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "time_seeks")


@row(
    "thousand-segments-rss",
    "1,000 segments, 1 TB: memory taken by opening and 4,000 seeks",
    unit="MB",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=3,
)
def memory(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "rss_mb")


@row(
    "thousand-segments-files",
    "1,000 segments, 1 TB: open files after 4,000 seeks",
    unit="files",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=3,
)
def open_files(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "open_files")


if __name__ == "__main__":
    print(json.dumps(look(Path(sys.argv[1]))))
