"""What lines of log files say: lines a second on one core, by `barnabas logs parse`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from barnabas.testing.logs.usual import NAMES, Usual
from bench.registry import OURS, Contender, Workbench, row

LINES = 200_000
START_MS = 1_790_000_000_000


@row(
    "logs-parse", "Lines of usual log files, on one core", unit="lines/s", own_goal=100_000, own_floor=80_000
)
def logs_parse(bench: Workbench) -> Mapping[str, Contender]:
    usual = Usual(7)
    texts: dict[str, list[bytes]] = {name: [] for name in NAMES}
    for number in range(LINES):
        name, line = usual.line(START_MS + 10 * number)
        texts[name] += line.split(b"\n")
    for name, lines in texts.items():
        (bench.scratch / f"{name}.log").write_bytes(b"\n".join(lines) + b"\n")
    total = sum(map(len, texts.values()))
    return {OURS: partial(lines_per_second, sorted(bench.scratch.glob("*.log")), total)}


def lines_per_second(files: list[Path], lines: int) -> float:
    """Of the processor's time, so that others on the machine do not count; the start of Python does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "logs", "parse", *map(str, files)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"logs parse ended with {process.returncode}")
    return lines / (usage.ru_utime + usage.ru_stime)
