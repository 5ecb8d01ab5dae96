"""Opens a log of 1 GB after an unclean shutdown: every batch is read and checked, every index rebuilt."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fastcrc import crc32

from bench.registry import OURS, Contender, Workbench, row
from bench.rows.log_samples import MB, open_log, size_of, write_segment

LOG_BYTES = 1000 * MB
PIECE_BYTES = 1 << 20
CEILING = "plain read and CRC-32C"


@row(
    "log-recovery",
    "Recovery of 1 GB after an unclean stop, batches of 16 KB",
    unit="MB/s",
    against=CEILING,
    rounds=3,
)
def recovery(bench: Workbench) -> Mapping[str, Contender]:
    folder = bench.scratch / "bench-0"
    end_offset = write_segment(folder, LOG_BYTES)
    total = size_of(folder)

    def ours() -> float:
        for path in folder.iterdir():
            if path.suffix != ".log":
                path.unlink()
        started = time.perf_counter()
        log = open_log(folder, clean=False)
        elapsed = time.perf_counter() - started
        assert log.end_offset == end_offset
        log.abandon()
        return total / MB / elapsed

    def plain() -> float:
        buffer = bytearray(PIECE_BYTES)
        started = time.perf_counter()
        with (folder / f"{0:020}.log").open("rb", buffering=0) as file:
            while (length := file.readinto(buffer)) > 0:
                crc32.iscsi(memoryview(buffer)[:length])
        return total / MB / (time.perf_counter() - started)

    return {OURS: ours, CEILING: plain}
