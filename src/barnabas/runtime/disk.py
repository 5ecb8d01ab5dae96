"""The door to storage: the only way in which the log touches files.

What lives here: the interface, and what every kind of disk shares.  What may not: anything that knows
what a file means.  The kinds are `folder_disk` (real files), `memory_disk` (memfd) and `simulated_disk`
(drops what was not synced, fails on demand).

Paths are plain strings as the operating system has them.  Every call blocks; callers that must not wait
run it on a worker.  Errors are OSError with the errno a real file system gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Sink(Protocol):
    """Where a slice can be sent without passing through Python's memory: a socket, in practice."""

    def fileno(self) -> int: ...

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

    def send_to(self, sink: Sink, offset: int) -> int:
        """Send from `offset` of this range on, by the shortest way; the count sent, as `socket.send` does."""
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

    def slice(self, offset: int, length: int) -> Slice: ...

    def truncate(self, size: int) -> None:
        """Cut, or grow with a hole of zeroes."""
        ...

    def sync(self) -> None:
        """Return when the content is on stable storage; its name in the folder needs `Disk.sync_folder`."""
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
        """With its parents; fine if it is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic, replaces a file.  Lasting only after `sync_folder` of the parent."""
        ...

    def remove(self, path: str) -> None:
        """A file; fine if it is gone."""
        ...

    def remove_tree(self, path: str) -> None:
        """A folder with all it holds; fine if it is gone."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> Lock:
        """Hold this lock file exclusively; BlockingIOError when another process (or this one) has it."""
        ...

    # Whole-file helpers that every kind gets from `WholeFiles`.
    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Write `path`.tmp, sync, rename over `path`, sync the folder: after a crash it is the old or the new."""
        ...


class WholeFiles:
    """Whole-file reads and writes, on top of the interface, alike on every kind of disk."""

    def read_bytes(self: Disk, path: str) -> bytes:
        file = self.open(path, writable=False)
        try:
            return file.read_at(0, file.size)
        finally:
            file.close()

    def write_atomically(self: Disk, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        self.remove(temporary)
        file = self.open(temporary, create=True)
        try:
            file.append([data])
            if sync:
                file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        if sync:
            self.sync_folder(path.rpartition("/")[0] or "/")
