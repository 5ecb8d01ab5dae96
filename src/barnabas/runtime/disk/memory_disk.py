"""The Disk in memory: nothing remains when the process ends.

Files are anonymous descriptors (so that slices are sent by sendfile, as from real files); small ones are
plain bytes (so that a thousand index files need no descriptor).  Simulated data loss belongs in
simulated.disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.disk import descriptor_io
from barnabas.runtime.disk.descriptor_io import ALL_FEATURES, DiskFeatures
from barnabas.runtime.disk.descriptor_slice import DescriptorSlice
from barnabas.runtime.disk.disk import Buffer, BytesSlice, Slice, WholeFiles, refuse
from barnabas.runtime.disk.file_tree import FileTree, Folder, Place, canonical

SMALL_FILE_BYTES = 64 * 1024
"""Up to this size a file is plain bytes, and a slice of it a copy; a larger one has a descriptor."""


# The content of a folder: for each name the time of its last change, and its bytes or what is below it.
DiskImage: TypeAlias = "dict[str, tuple[int, bytes | DiskImage]]"


class MemoryContent:
    """The content of a file.  It exists as long as the tree, a handle or a slice refers to it."""

    __slots__ = ("_descriptor", "_features", "_lock", "_small", "modified_ms", "path", "size")

    def __init__(self, path: str, modified_ms: int, features: DiskFeatures) -> None:
        self.path = path
        self.modified_ms = modified_ms
        self.size = 0
        self._small = bytearray()
        self._descriptor = -1
        self._features = features
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def append(self, parts: Sequence[Buffer]) -> int:
        with self._lock:
            start = self.size
            self._write(start, parts)
            return start

    def write(self, offset: int, data: Buffer) -> None:
        with self._lock:
            self._write(offset, (data,))

    def read(self, offset: int, length: int) -> bytes:
        with self._lock:
            length = max(0, min(length, self.size - offset))
            if self._descriptor < 0:
                return bytes(self._small[offset : offset + length])
        return descriptor_io.read_full(self._descriptor, offset, length)

    def truncate(self, size: int) -> None:
        with self._lock:
            self._fit(size)
            if self._descriptor >= 0:
                os.ftruncate(self._descriptor, size)
            else:
                del self._small[size:]
                self._small.extend(bytes(size - len(self._small)))
            self.size = size

    def slice(self, offset: int, length: int) -> Slice:
        with self._lock:
            length = max(0, min(length, self.size - offset))
            if self._descriptor < 0:
                return BytesSlice(bytes(self._small[offset : offset + length]))
            return MemorySlice(self, self._descriptor, offset, length, self._features)

    def _write(self, offset: int, parts: Sequence[Buffer]) -> None:
        end = offset + descriptor_io.total_bytes(parts)
        if end == offset:  # Writing nothing beyond the end leaves no hole.
            return
        self._fit(end)
        if self._descriptor >= 0:
            descriptor_io.write_all(self._descriptor, parts, offset, self._features)
        else:
            self._small.extend(bytes(max(0, offset - len(self._small))))
            self._small[offset:end] = b"".join(parts)
        self.size = max(self.size, end)

    def _fit(self, size: int) -> None:
        """Move to a descriptor before growing beyond the small size."""
        if self._descriptor < 0 and size > SMALL_FILE_BYTES:
            descriptor = descriptor_io.nameless_file(self._features)
            descriptor_io.write_all(descriptor, (self._small,), 0, self._features)
            self._descriptor = descriptor
            self._small = bytearray()


class MemorySlice(DescriptorSlice):
    """A range of a file that has a descriptor."""

    __slots__ = ("_content",)

    def __init__(
        self, content: MemoryContent, descriptor: int, offset: int, length: int, features: DiskFeatures
    ) -> None:
        super().__init__(descriptor, offset, length, features)
        self._content = content  # Keeps the descriptor open.

    @property
    def path(self) -> str:
        return self._content.path

    def _range(self, offset: int, length: int) -> MemorySlice:
        return MemorySlice(self._content, self._descriptor, offset, length, self._features)

    def is_resident(self) -> bool:
        return True


class MemoryFile:
    """A handle on a file's content."""

    __slots__ = ("_clock", "_closed", "_content", "_writable")

    def __init__(self, content: MemoryContent, clock: Clock, *, writable: bool) -> None:
        self._content = content
        self._clock = clock
        self._writable = writable
        self._closed = False

    @property
    def path(self) -> str:
        return self._content.path

    @property
    def size(self) -> int:
        self._check(0)
        return self._content.size

    def append(self, parts: Sequence[Buffer]) -> int:
        self._change()
        return self._content.append(parts)

    def write_at(self, offset: int, data: Buffer) -> None:
        self._check(offset)
        self._change()
        self._content.write(offset, data)

    def read_at(self, offset: int, length: int) -> bytes:
        self._check(offset, length)
        return self._content.read(offset, length)

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> int:
        self._check(offset)
        with memoryview(buffer).cast("B") as view:
            data = self._content.read(offset, len(view))
            view[: len(data)] = data
        return len(data)

    def slice(self, offset: int, length: int) -> Slice:
        self._check(offset, length)
        return self._content.slice(offset, length)

    def truncate(self, size: int) -> None:
        self._check(size)
        self._change()
        self._content.truncate(size)

    def sync(self) -> None:
        self._check(0)

    def close(self) -> None:
        self._closed = True

    def _check(self, *positions: int) -> None:
        if self._closed:
            refuse(errno.EBADF, self.path)
        if min(positions) < 0:
            refuse(errno.EINVAL, self.path)

    def _change(self) -> None:
        if self._closed or not self._writable:
            refuse(errno.EBADF, self.path)
        self._content.modified_ms = self._clock.wall_ms()


class MemoryLock:
    """A lock on a lock file."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        if self._path:
            self._held.discard(self._path)
            self._path = ""


class MemoryDisk(WholeFiles):
    """A separate, initially empty file system."""

    def __init__(self, *, clock: Clock | None = None, features: DiskFeatures = ALL_FEATURES) -> None:
        self._clock = clock or SystemClock()
        self._features = features
        self._tree: FileTree[MemoryContent] = FileTree(Folder(self._clock.wall_ms()))
        self._lock = threading.RLock()
        self._held: set[str] = set()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        with self._lock:
            place = self._tree.place(path)
            content = place.entry
            if isinstance(content, Folder):
                refuse(errno.EISDIR, path)
            if content is None:
                if not create:
                    refuse(errno.ENOENT, path)
                content = MemoryContent(canonical(path), self._clock.wall_ms(), self._features)
                self._set(place, content)
            return MemoryFile(content, self._clock, writable=writable)

    def exists(self, path: str) -> bool:
        with self._lock:
            return self._tree.find(path) is not None

    def is_folder(self, path: str) -> bool:
        with self._lock:
            return isinstance(self._tree.find(path), Folder)

    def names(self, path: str) -> list[str]:
        with self._lock:
            return sorted(self._tree.folder(path).entries)

    def size(self, path: str) -> int:
        with self._lock:
            entry = self._tree.entry(path)
            return 0 if isinstance(entry, Folder) else entry.size

    def modified_ms(self, path: str) -> int:
        with self._lock:
            return self._tree.entry(path).modified_ms

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        with self._lock:
            self._tree.entry(path).modified_ms = wall_ms

    def make_folder(self, path: str) -> None:
        with self._lock:
            while (missing := self._tree.first_missing(path)) is not None:
                self._set(self._tree.place(missing), Folder(self._clock.wall_ms()))

    def rename(self, old: str, new: str) -> None:
        with self._lock:
            places = self._tree.check_rename(old, new)
            if places is None:
                return
            source, target = places
            moved = source.folder.entries[source.name]
            self._set(target, moved)
            self._set(source, None)
            _follow(moved, canonical(new))

    def remove(self, path: str) -> None:
        with self._lock:
            try:
                place = self._tree.place(path)
            except FileNotFoundError:
                return
            if isinstance(place.entry, Folder):
                refuse(errno.EISDIR, path)
            if place.entry is not None:
                self._set(place, None)

    def remove_tree(self, path: str) -> None:
        with self._lock, contextlib.suppress(FileNotFoundError):
            self._tree.folder(path)
            self._set(self._tree.place(path), None)

    def sync_folder(self, path: str) -> None:
        with self._lock:
            self._tree.folder(path)

    def free_bytes(self, path: str) -> int:
        with self._lock:
            self._tree.entry(path)
        return _available_memory()

    def total_bytes(self, path: str) -> int:
        with self._lock:
            self._tree.entry(path)
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def lock(self, path: str) -> MemoryLock:
        with self._lock:
            if canonical(path) in self._held:
                refuse(errno.EAGAIN, path)
            self.open(path, create=True)
            return MemoryLock(self._held, canonical(path))

    def image(self) -> DiskImage:
        """All that is there now, copied."""
        with self._lock:
            return _image_of(self._tree.root)

    def replace(self, image: DiskImage) -> None:
        """Everything becomes as it was when the image was made; nobody must use the files meanwhile."""
        with self._lock:
            root: Folder[MemoryContent] = Folder(self._clock.wall_ms())
            self._tree = FileTree(root)
            self._fill(root, image, "")

    def _fill(self, folder: Folder[MemoryContent], image: DiskImage, path: str) -> None:
        for name, (modified_ms, entry) in image.items():
            below = f"{path}/{name}"
            if isinstance(entry, bytes):
                content = MemoryContent(below, modified_ms, self._features)
                content.append((entry,))
                folder.entries[name] = content
            else:
                new: Folder[MemoryContent] = Folder(modified_ms)
                folder.entries[name] = new
                self._fill(new, entry, below)

    def _set(self, place: Place[MemoryContent], entry: MemoryContent | Folder[MemoryContent] | None) -> None:
        if entry is None:
            del place.folder.entries[place.name]
        else:
            place.folder.entries[place.name] = entry
        place.folder.modified_ms = self._clock.wall_ms()


def _image_of(folder: Folder[MemoryContent]) -> DiskImage:
    return {
        name: (
            entry.modified_ms,
            _image_of(entry) if isinstance(entry, Folder) else entry.read(0, entry.size),
        )
        for name, entry in folder.entries.items()
    }


def _follow(entry: MemoryContent | Folder[MemoryContent], path: str) -> None:
    """Called after a rename: updates the paths of the files."""
    if isinstance(entry, Folder):
        for name, below in entry.entries.items():
            _follow(below, f"{path}/{name}")
    else:
        entry.path = path


def _available_memory() -> int:
    """What processes can get, the page cache included: pages that nobody uses are few on a busy machine."""
    with contextlib.suppress(OSError, ValueError), Path("/proc/meminfo").open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
