"""The door to storage: the only way in which the log touches files.

What lives here: the interface, and what every kind of disk shares.  What may not: anything that knows
what a file means.  The kinds are `folder_disk` (real files), `memory_disk` (memfd) and `simulated_disk`
(drops what was not synced, fails on demand).

Paths are plain strings as the operating system has them.  Every call blocks; callers that must not wait
run it on a worker.  Errors are OSError with the errno a real file system gives: EBADF for a write through a
handle that is closed or was not opened for writing, EINVAL for a negative position.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import NoReturn, Protocol

Buffer = bytes | bytearray | memoryview

SYNCED_ONE_BY_ONE_MAX = 32
"""With more files or logs than this it is quicker to write all of them and then to `sync_below` once."""


def refuse(code: int, path: str, advice: str = "") -> NoReturn:
    """Raise what the operating system would: OSError makes the fitting subclass (FileNotFoundError, ...)."""
    raise OSError(code, advice or os.strerror(code), path)


class Sink(Protocol):
    """Where a slice can be sent without passing through Python's memory: a socket, in practice."""

    def fileno(self) -> int:
        """A descriptor that takes plain bytes, or -1: then (as TLS needs) all bytes pass through `send`."""
        ...

    def send(self, data: Buffer, /) -> int: ...


class Slice(Protocol):
    """A range of a file, readable when it was taken; it stays so if the file is deleted meanwhile."""

    @property
    def length(self) -> int: ...

    def read(self) -> bytes:
        """The whole range, copied."""
        ...

    def sub(self, offset: int, length: int) -> Slice:
        """A part of this range."""
        ...

    def is_resident(self) -> bool:
        """False when reading it now would wait for the device; True when unknown."""
        ...

    def bring_in(self) -> None:
        """Wait until it is in memory: for workers, on behalf of a loop that may not wait."""
        ...

    def send_to(self, sink: Sink, offset: int) -> int:
        """Send from `offset` of this range on, by the shortest way; the count sent, as `socket.send` does.

        BlockingIOError when the socket is full.  0 only when nothing of the range is left.
        """
        ...


class File(Protocol):
    """An open file.  Positions are explicit; there is no cursor but the end."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end, or raise; returns the position of the first byte.

        When it raises, a part may have been written: the caller truncates to the size it knew.
        """
        ...

    def write_at(self, offset: int, data: Buffer) -> None: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; shorter only at the end of the file."""
        ...

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> int: ...

    def slice(self, offset: int, length: int) -> Slice:
        """The range as far as the file reaches now: shorter only at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut, or grow with a hole of zeroes."""
        ...

    def sync(self) -> None:
        """Return when the content is on stable storage; its name in the folder needs `Disk.sync_folder`.

        A failure is final for this content: the operating system has dropped what it could not write, so
        trying again proves nothing.  Truncate and rewrite, or give the folder up.
        """
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    """An exclusive hold on a folder."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """FileNotFoundError unless it exists or `create`."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_folder(self, path: str) -> bool: ...

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, wall_ms: int) -> None: ...

    def make_folder(self, path: str) -> None:
        """With its parents; fine if it is there.  Lasting after `sync_folder` of each new one's parent."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic, replaces a file or an empty folder; open files follow.  Lasting after `sync_folder`."""
        ...

    def remove(self, path: str) -> None:
        """A file; fine if it is gone."""
        ...

    def remove_tree(self, path: str) -> None:
        """A folder with all it holds; fine if it is gone."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def sync_below(self, path: str) -> None:
        """All files and names in a folder and below it: for who has changed many of them.

        The real disk may bring along what others have written to the same file system.
        """
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """The size of the whole file system that holds the path."""
        ...

    def lock(self, path: str) -> Lock:
        """Hold this lock file exclusively; BlockingIOError when another process (or this one) has it."""
        ...

    # Whole-file helpers that every kind gets from `WholeFiles`.
    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Write `path`.tmp, sync, rename over `path`, sync the folder: after a crash it is old or new.

        When it raises, the temporary file is removed again if that is possible.
        """
        ...


class WholeFiles:
    """Whole files and whole folders, on top of the interface, alike on every kind of disk."""

    def read_bytes(self: Disk, path: str) -> bytes:
        file = self.open(path, writable=False)
        try:
            return file.read_at(0, file.size)
        finally:
            file.close()

    def write_atomically(self: Disk, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        self.remove(temporary)
        try:
            file = self.open(temporary, create=True)
            try:
                file.append([data])
                if sync:
                    file.sync()
            finally:
                file.close()
            self.rename(temporary, path)
        except OSError:
            # A full disk must not be left with one more file; what failed first is what matters.
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        if sync:
            self.sync_folder(os.path.dirname(path) or ".")

    def sync_below(self: Disk, path: str) -> None:
        for name in self.names(path):
            below = f"{path}/{name}"
            if self.is_folder(below):
                self.sync_below(below)
                continue
            file = self.open(below)
            try:
                file.sync()
            finally:
                file.close()
        self.sync_folder(path)


class BytesSlice:
    """A slice whose bytes are already in memory: small files, and everything on the simulated disk."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def length(self) -> int:
        return len(self._data)

    def read(self) -> bytes:
        return self._data

    def sub(self, offset: int, length: int) -> BytesSlice:
        if offset < 0 or length < 0:
            refuse(errno.EINVAL, "slice")
        return BytesSlice(self._data[offset : offset + length])

    def is_resident(self) -> bool:
        return True

    def bring_in(self) -> None:
        """It is there."""

    def send_to(self, sink: Sink, offset: int) -> int:
        if offset >= len(self._data):
            return 0
        return sink.send(memoryview(self._data)[offset:])
