"""The disk interface: the only way in which the log accesses files.

Contains the interface, and what every kind of disk shares.  Nothing here knows what a file means.  The kinds
are `folder_disk` (real files), `memory_disk` (memfd) and `simulated.disk` (loses unsynced data, fails on
demand).

Paths are plain strings in the form of the operating system.  Every call blocks; callers that must not block
run it on a worker.  Errors are OSError with the errno of a real file system: EBADF for a write through a
handle that is closed or read-only, EINVAL for a negative position.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import NoReturn, Protocol

Buffer = bytes | bytearray | memoryview

SYNCED_ONE_BY_ONE_MAX = 32
"""With more files or logs than this it is faster to write all of them and then call `sync_below` once."""


def refuse(code: int, path: str, advice: str = "") -> NoReturn:
    """Raises OSError as the operating system would, as its matching subclass (FileNotFoundError, ...)."""
    raise OSError(code, advice or os.strerror(code), path)


class Sink(Protocol):
    """A destination to which a slice can be sent without passing through Python's memory: usually a
    socket."""

    def fileno(self) -> int:
        """A descriptor that accepts plain bytes, or -1 if (as with TLS) all bytes must go through `send`."""
        ...

    def send(self, data: Buffer, /) -> int: ...


class Slice(Protocol):
    """A range of a file, readable from its creation on, even if the file is deleted meanwhile."""

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
        """Wait until it is in memory: called on workers, on behalf of a loop that must not block."""
        ...

    def send_to(self, sink: Sink, offset: int) -> int:
        """Send the range from `offset` on, by the fastest means; returns the count sent, like `socket.send`.

        BlockingIOError when the socket is full.  0 only when nothing of the range remains.
        """
        ...


class File(Protocol):
    """An open file.  Positions are explicit; there is no cursor."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write all parts at the end, or raise; returns the position of the first byte.

        When it raises, some bytes may have been written: the caller truncates to the previous size.
        """
        ...

    def write_at(self, offset: int, data: Buffer) -> None: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; shorter only at the end of the file."""
        ...

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> int: ...

    def slice(self, offset: int, length: int) -> Slice:
        """The range up to the current end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Shorten, or extend with a hole of zeroes."""
        ...

    def sync(self) -> None:
        """Returns when the content is on stable storage; its name in the folder needs `Disk.sync_folder`.

        A failure is final for this content: the operating system has dropped the data that it could not
        write, so a successful retry proves nothing.  Truncate and rewrite, or take the directory offline.
        """
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    """An exclusive lock on a folder."""

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
        """With its parents; no error if it exists.  Durable after `sync_folder` of each new one's parent."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic, replaces a file or an empty folder; open files follow.  Durable after `sync_folder`."""
        ...

    def remove(self, path: str) -> None:
        """A file; no error if it does not exist."""
        ...

    def remove_tree(self, path: str) -> None:
        """A folder with its contents; no error if it does not exist."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def sync_below(self, path: str) -> None:
        """All files and names in a folder and its subfolders, for callers that changed many of them.

        The real disk may also sync other data on the same file system.
        """
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """The size of the whole file system that holds the path."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock this lock file exclusively; BlockingIOError when another process (or this one) holds the
        lock."""
        ...

    # Whole-file helpers that every kind gets from `WholeFiles`.
    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Write `path`.tmp, sync, rename to `path`, sync the folder: after a crash the file is old or new.

        When it raises, the temporary file is removed again if possible.
        """
        ...


class WholeFiles:
    """Operations on whole files and folders, on top of the interface, the same for every kind of disk."""

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
            # A full disk must not keep one more file; the first error is the one to report.
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
    """A slice whose bytes are already in memory: small files, and all files of the simulated disk."""

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
        """It is already in memory."""

    def send_to(self, sink: Sink, offset: int) -> int:
        if offset >= len(self._data):
            return 0
        return sink.send(memoryview(self._data)[offset:])
