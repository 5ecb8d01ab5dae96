"""Lines of the standard input.

What lives here: reading a descriptor that may be a pipe, a terminal or a file, no faster than lines are
sent: whoever writes to a pipe waits then.  What may not: sending.
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
    """Until its end."""

    def __init__(self, descriptor: int = 0, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._descriptor = descriptor
        self._cutter = LineCutter(max_line_bytes)
        self._position = 0
        self._stopped = asyncio.Event()

    async def read(self) -> AsyncGenerator[Lines, None]:
        # A file is always readable, and no selector takes it.
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
        # Also when it is told to stop in the middle of a line: nobody can read that part again.
        if lines := self._cutter.end():
            yield self._found(lines)

    def _found(self, lines: list[bytes]) -> Lines:
        self._position += len(lines)
        return Lines("stdin", lines, PLACE, self._position)

    async def _readable(self) -> bool:
        """Whether there is something to read, or its end; False when nobody wants it any more."""
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
        """Nothing to remember: a pipe cannot be read twice."""

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """The descriptor is not ours."""
