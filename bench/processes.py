"""Memory and CPU time of a process, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name: user time and system time.
_USER_TICKS, _SYSTEM_TICKS = 11, 12


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1]) * PAGE_BYTES


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / TICKS_PER_SECOND


def device_bytes_read(pid: int) -> int:
    """Bytes read from the device, not from memory."""
    for line in Path(f"/proc/{pid}/io").read_text("utf-8").splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return 0
