"""The Disk on real files.

Contains the Disk, File, Slice and Lock interfaces on folders of the operating system.  Open descriptors
belong in descriptor_cache, the transfer of bytes in descriptor_io.

One FolderDisk serves a process.  It assumes that no other process writes below its folders; the lock file of
each log directory ensures that.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.disk import descriptor_io
from barnabas.runtime.disk.descriptor_cache import OPEN_FILES_MAX, CachedFile, DescriptorCache
from barnabas.runtime.disk.descriptor_io import ALL_FEATURES, DiskFeatures
from barnabas.runtime.disk.descriptor_slice import DescriptorSlice
from barnabas.runtime.disk.disk import Buffer, BytesSlice, Slice, WholeFiles, refuse

T = TypeVar("T")


class FolderSlice(DescriptorSlice):
    """A range of a real file.  It keeps the descriptor open until it is garbage-collected."""

    __slots__ = ("_cache", "_file")

    def __init__(
        self, cache: DescriptorCache, file: CachedFile, offset: int, length: int, features: DiskFeatures
    ) -> None:
        super().__init__(cache.pin_slice(file), offset, length, features)
        self._cache = cache
        self._file = file

    def __del__(self) -> None:
        if hasattr(self, "_file"):  # Missing when the file could not be opened.
            self._cache.drop_pin(self._file)

    @property
    def path(self) -> str:
        return self._file.path

    def _range(self, offset: int, length: int) -> FolderSlice:
        return FolderSlice(self._cache, self._file, offset, length, self._features)

    def is_resident(self) -> bool:
        return descriptor_io.is_resident(self._descriptor, self._offset, self._length, self._features)


class FolderFile:
    """A light handle: its descriptor may be closed and reopened between two calls."""

    __slots__ = ("_cache", "_closed", "_features", "_file", "_writable")

    def __init__(
        self, cache: DescriptorCache, file: CachedFile, *, writable: bool, features: DiskFeatures
    ) -> None:
        self._cache = cache
        self._file = file
        self._writable = writable
        self._features = features
        self._closed = False

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size(self) -> int:
        file = self._file
        self._check_open()
        if file.writable:
            return file.size
        # Another process may be writing a file that we only read.
        descriptor = self._pin()
        try:
            return os.fstat(descriptor).st_size
        finally:
            self._unpin()

    def append(self, parts: Sequence[Buffer]) -> int:
        file = self._file
        start = file.size
        if len(parts) != 1 or not self._features.gathered_io or self._closed or not self._writable:
            self._write(start, parts)
            return start
        if self._cache.append(file, parts) != len(parts[0]):
            self._write(start, parts)
        return start

    def write_at(self, offset: int, data: Buffer) -> None:
        if offset < 0:
            refuse(errno.EINVAL, self.path)
        self._write(offset, (data,))

    def read_at(self, offset: int, length: int) -> bytes:
        length = self._clamp(offset, length)
        descriptor = self._pin()
        try:
            return descriptor_io.read_full(descriptor, offset, length)
        finally:
            self._unpin()

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> int:
        if offset < 0:
            refuse(errno.EINVAL, self.path)
        descriptor = self._pin()
        try:
            return descriptor_io.read_into(descriptor, offset, buffer, self._features)
        finally:
            self._unpin()

    def slice(self, offset: int, length: int) -> Slice:
        length = self._clamp(offset, length)
        self._check_open()
        if not self._cache.has_room_for_slice(self._file):
            return BytesSlice(self.read_at(offset, length))
        return FolderSlice(self._cache, self._file, offset, length, self._features)

    def truncate(self, size: int) -> None:
        descriptor = self._pin(for_writing=True)
        try:
            os.ftruncate(descriptor, size)
            self._file.size = size
        finally:
            self._unpin()

    def sync(self) -> None:
        file = self._file
        descriptor = self._pin()
        try:
            if file.failure is None:
                descriptor_io.sync(descriptor, self._features)
        except OSError as error:
            file.failure = error
        finally:
            self._unpin()
        if file.failure is not None:
            refuse(
                file.failure.errno or errno.EIO,
                file.path,
                f"{file.failure.strerror}: writes since the last sync may be lost; "
                "recover this file from its last valid byte",
            )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._cache.close(self._file)

    def _write(self, offset: int, parts: Sequence[Buffer]) -> None:
        file = self._file
        descriptor = self._pin(for_writing=True)
        try:
            written = descriptor_io.write_all(descriptor, parts, offset, self._features)
            end = offset + written
            if written > 0 and end > file.size:  # Writing nothing beyond the end leaves no hole.
                file.size = end
        except OSError:
            file.size = os.fstat(descriptor).st_size
            raise
        finally:
            self._unpin()

    def _clamp(self, offset: int, length: int) -> int:
        if offset < 0 or length < 0:
            refuse(errno.EINVAL, self.path)
        return max(0, min(length, self.size - offset))

    def _check_open(self) -> None:
        if self._closed:
            refuse(errno.EBADF, self.path)

    def _pin(self, *, for_writing: bool = False) -> int:
        """The descriptor, to be used until `_unpin`; not a `with`, which costs as much as a small read."""
        if self._closed or (for_writing and not self._writable):
            refuse(errno.EBADF, self.path)
        return self._cache.pin(self._file)

    def _unpin(self) -> None:
        self._cache.unpin(self._file)


class FolderLock:
    """A lock on a lock file.  The file itself stays, as Apache Kafka leaves it."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class FolderDisk(WholeFiles):
    """The file system of this machine."""

    def __init__(
        self, *, open_files_max: int = OPEN_FILES_MAX, features: DiskFeatures = ALL_FEATURES
    ) -> None:
        self._cache = DescriptorCache(open_files_max)
        self._features = features

    @property
    def open_descriptors(self) -> int:
        """Number of files that have a descriptor now: a metric."""
        return self._cache.open_count

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FolderFile:
        file = self._cache.open(os.path.abspath(path), create=create, writable=writable)
        return FolderFile(self._cache, file, writable=writable, features=self._features)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def names(self, path: str) -> list[str]:
        return sorted(self._with_room(lambda: os.listdir(path)))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // NS_PER_MS

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        os.utime(path, ns=(wall_ms * NS_PER_MS, wall_ms * NS_PER_MS))

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        self._cache.rename(os.path.abspath(old), os.path.abspath(new))

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._cache.remove(os.path.abspath(path))

    def remove_tree(self, path: str) -> None:
        import shutil  # imports three archivers, which would slow every start

        self._cache.keep_below(os.path.abspath(path))
        with contextlib.suppress(FileNotFoundError):
            self._with_room(lambda: shutil.rmtree(path))

    def sync_folder(self, path: str) -> None:
        descriptor = self._open_folder(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_below(self, path: str) -> None:
        if not self._features.file_system_sync:
            super().sync_below(path)
            return
        descriptor = self._open_folder(path)
        try:
            descriptor_io.sync_file_system(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> FolderLock:
        descriptor = self._with_room(lambda: os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            descriptor_io.lock_exclusively(descriptor, self._features)
        except OSError:
            os.close(descriptor)
            raise
        return FolderLock(descriptor)

    def _open_folder(self, path: str) -> int:
        return self._with_room(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def _with_room(self, open_something: Callable[[], T]) -> T:
        """Run a call that needs a descriptor; closes an idle one and retries if there is none left."""
        while True:
            try:
                return open_something()
            except OSError as error:
                if error.errno != errno.EMFILE or not self._cache.give_back():
                    raise
