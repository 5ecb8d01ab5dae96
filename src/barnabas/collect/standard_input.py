"""Lines of standard input: a pipe, a terminal or a file, read no faster than lines are sent, so that the
writer of a pipe waits.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator

from barnabas.collect.lines import MAX_LINE_BYTES, LineCutter
from barnabas.collect.sources import Lines

CHUNK_BYTES = 64 * 1024
PLACE = 0


class StandardInput:
    """Reads until the end of the input."""

    def __init__(self, descriptor: int = 0, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._descriptor = descriptor
        self._cutter = LineCutter(max_line_bytes)
        self._position = 0
        self._stopped = asyncio.Event()

    async def read(self) -> AsyncGenerator[Lines, None]:
        # A file is always readable, and selectors do not support it.
        is_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        while not self._stopped.is_set():
            if not is_file and not await self._readable():
                break
            chunk = os.read(self._descriptor, CHUNK_BYTES)
            if not chunk:
                break
            if lines := self._cutter.cut(chunk):
                yield self._found(lines)
            await asyncio.sleep(0)
        # Also when stopped in the middle of a line: that part cannot be read again.
        if lines := self._cutter.end():
            yield self._found(lines)

    def _found(self, lines: list[bytes]) -> Lines:
        self._position += len(lines)
        return Lines("stdin", lines, PLACE, self._position)

    async def _readable(self) -> bool:
        """Wait until there is data, or the end of the input; False after `stop`."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        waits = [asyncio.ensure_future(ready.wait()), asyncio.ensure_future(self._stopped.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return ready.is_set()
        finally:
            for wait in waits:
                wait.cancel()
            loop.remove_reader(self._descriptor)

    def written(self, place: int, position: int) -> None:
        """Nothing to save: a pipe cannot be read twice."""

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """The descriptor belongs to the caller."""
