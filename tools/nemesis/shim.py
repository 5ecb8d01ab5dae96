"""Builds the preloaded library of shim.c, and controls the nodes in which it is loaded."""

from __future__ import annotations

import errno
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
_SLOT = struct.Struct("=q")
_CLOCK_SHIFT, _SYNC_ERROR, _FAILED_SYNCS, _SYNC_DELAY = 0, 8, 16, 24
_SIZE = 32


def build_shim(folder: Path) -> Path | None:
    """Returns None if there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = folder / "nemesis_shim.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


class Control:
    """What the library in one node does; it survives the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)

    def shift_clock(self, seconds: float) -> None:
        _SLOT.pack_into(self._map, _CLOCK_SHIFT, int(seconds * 1_000_000_000))

    def fail_syncs(self, *, fail: bool) -> None:
        _SLOT.pack_into(self._map, _SYNC_ERROR, errno.EIO if fail else 0)

    def delay_syncs(self, seconds: float) -> None:
        """Each takes so much longer."""
        _SLOT.pack_into(self._map, _SYNC_DELAY, int(seconds * 1_000_000_000))

    @property
    def failed_syncs(self) -> int:
        count: int = _SLOT.unpack_from(self._map, _FAILED_SYNCS)[0]
        return count
