"""A Disk around another one that reports each operation before it runs: to find waits for the device, or to
fail it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.runtime.disk.disk import Buffer, Disk, File, Lock, Slice, WholeFiles
from barnabas.runtime.simulated.disk_faults import Kind

Watch = Callable[[Kind, str], None]
"""Called before an operation with its kind and path; the operation raises what it raises."""


class WatchedFile:
    """A handle whose changes and syncs are reported."""

    __slots__ = ("_file", "_watch")

    def __init__(self, file: File, watch: Watch) -> None:
        self._file = file
        self._watch = watch

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, parts: Sequence[Buffer]) -> int:
        self._watch(Kind.WRITE, self.path)
        return self._file.append(parts)

    def write_at(self, offset: int, data: Buffer) -> None:
        self._watch(Kind.WRITE, self.path)
        self._file.write_at(offset, data)

    def read_at(self, offset: int, length: int) -> bytes:
        return self._file.read_at(offset, length)

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> int:
        return self._file.read_into(offset, buffer)

    def slice(self, offset: int, length: int) -> Slice:
        return self._file.slice(offset, length)

    def truncate(self, size: int) -> None:
        self._watch(Kind.TRUNCATE, self.path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._watch(Kind.SYNC, self.path)
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class WatchedDisk(WholeFiles):
    """Another disk, and somebody who watches."""

    def __init__(self, disk: Disk, watch: Watch) -> None:
        self.watch = watch
        self._disk = disk

    def _report(self, kind: Kind, path: str) -> None:
        self.watch(kind, path)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> WatchedFile:
        return WatchedFile(self._disk.open(path, create=create, writable=writable), self._report)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def is_folder(self, path: str) -> bool:
        return self._disk.is_folder(path)

    def names(self, path: str) -> list[str]:
        return self._disk.names(path)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def modified_ms(self, path: str) -> int:
        return self._disk.modified_ms(path)

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        self._disk.set_modified_ms(path, wall_ms)

    def make_folder(self, path: str) -> None:
        self._disk.make_folder(path)

    def rename(self, old: str, new: str) -> None:
        self.watch(Kind.RENAME, old)
        self._disk.rename(old, new)

    def remove(self, path: str) -> None:
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self._disk.remove_tree(path)

    def sync_folder(self, path: str) -> None:
        self.watch(Kind.SYNC_FOLDER, path)
        self._disk.sync_folder(path)

    def sync_below(self, path: str) -> None:
        self.watch(Kind.SYNC_FOLDER, path)
        self._disk.sync_below(path)

    def free_bytes(self, path: str) -> int:
        return self._disk.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        return self._disk.total_bytes(path)

    def lock(self, path: str) -> Lock:
        return self._disk.lock(path)
