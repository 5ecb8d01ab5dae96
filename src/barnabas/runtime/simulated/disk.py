"""A simulated disk: in memory, controlled by a seed, with power loss and faults on demand.

Contains the Disk, File and Lock interfaces on simulated files.  Which bytes survive a power loss belongs in
simulated.file, which names in simulated.names, and when operations fail in simulated.disk_faults.

A checker need not repeat a run for every moment at which power may fail: `on_operation` is called after every
change, and `fork` returns a second disk, cheaply, whose power can be cut while the first continues.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from barnabas.runtime.disk.disk import Buffer, BytesSlice, WholeFiles, refuse
from barnabas.runtime.disk.file_tree import Folder, canonical
from barnabas.runtime.random import Random
from barnabas.runtime.simulated.disk_faults import Faults, Kind, PowerLost
from barnabas.runtime.simulated.file import SimulatedContent
from barnabas.runtime.simulated.names import SimulatedNames, update_paths

START_WALL_MS = 1_700_000_000_000
"""The start of the disk's own clock; it advances by 1 ms with every change."""

UNLIMITED_BYTES = 1 << 50
"""Free space reported by a disk without a capacity."""


class SimulatedFile:
    """A handle.  It becomes invalid with a power loss and with the end of the process (`restart`)."""

    __slots__ = ("_closed", "_content", "_disk", "_life", "_writable")

    def __init__(self, disk: SimulatedDisk, content: SimulatedContent, *, writable: bool) -> None:
        self._disk = disk
        self._content = content
        self._writable = writable
        self._closed = False
        self._life = disk.life

    @property
    def path(self) -> str:
        return self._content.path

    @property
    def size(self) -> int:
        self._check()
        return len(self._content.data)

    def append(self, parts: Sequence[Buffer]) -> int:
        start = len(self._content.data)
        self._write(start, parts)
        return start

    def write_at(self, offset: int, data: Buffer) -> None:
        self._write(offset, (data,))

    def read_at(self, offset: int, length: int) -> bytes:
        self._check(offset, length)
        self._disk.look(Kind.READ, self.path)
        return bytes(memoryview(self._content.data)[offset : offset + length])

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> int:
        with memoryview(buffer).cast("B") as view:
            data = self.read_at(offset, len(view))
            view[: len(data)] = data
        return len(data)

    def slice(self, offset: int, length: int) -> BytesSlice:
        return BytesSlice(self.read_at(offset, length))

    def truncate(self, size: int) -> None:
        self._check(size, for_writing=True)
        fault = self._disk.begin(Kind.TRUNCATE, self.path, size)
        if fault is not None:
            raise fault.error(self.path)
        self._content.truncate(size)
        self._changed()

    def sync(self) -> None:
        self._check()
        fault = self._disk.begin(Kind.SYNC, self.path, len(self._content.data))
        if fault is not None:
            self._content.fail_sync()
            raise fault.error(self.path)
        self._content.sync()
        self._disk.done()

    def close(self) -> None:
        self._closed = True

    def _write(self, offset: int, parts: Sequence[Buffer]) -> None:
        self._check(offset, for_writing=True)
        data = b"".join(parts)
        length = len(data)
        fault = self._disk.begin(Kind.WRITE, self._content.path, length)
        if fault is not None:
            self._content.write(offset, data[: fault.kept_bytes])
            raise fault.error(self.path)
        space = self._disk.space_for(self._content, offset, length)
        if space < length:
            self._content.write(offset, data[:space])
            refuse(errno.ENOSPC, self.path)
        self._content.write(offset, data)
        self._changed()

    def _changed(self) -> None:
        self._content.modified_ms = self._disk.wall_ms()
        self._disk.done()

    def _check(self, *positions: int, for_writing: bool = False) -> None:
        self._disk.check_power(self._life)
        if self._closed or (for_writing and not self._writable):
            refuse(errno.EBADF, self.path)
        for position in positions:
            if position < 0:
                refuse(errno.EINVAL, self.path)


class SimulatedLock:
    """A lock on a lock file, until released or until the process ends."""

    __slots__ = ("_disk", "_life", "_path")

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._life = disk.life
        self._path = path

    def release(self) -> None:
        if self._path and self._life == self._disk.life:
            self._disk.unlock(self._path)
        self._path = ""


class SimulatedDisk(Faults, WholeFiles):
    """A separate, initially empty file system, for one thread.  `Faults` injects errors."""

    def __init__(
        self,
        random: Random,
        *,
        wall_ms: Callable[[], int] | None = None,
        capacity_bytes: int | None = None,
    ) -> None:
        super().__init__(random)
        self.capacity_bytes = capacity_bytes
        self.life = 0
        """Counts restarts: handles from before a restart are invalid."""
        self._wall_ms = wall_ms
        self._on = True
        self._names = SimulatedNames(Folder(self.wall_ms()))
        self._locked: set[str] = set()

    # Power loss and snapshots.

    def power_loss(self) -> None:
        """Cut the power: a draw decides which unsynced data is lost; all calls raise until `restart`."""
        self.check_power(self.life)
        self._names.lose_power(self._random)
        for content in self._names.files():
            content.lose_power(self._random)
        self._on = False

    def restart(self) -> None:
        """A new process on the same disk: handles and locks are lost, data only after a power loss."""
        self._on = True
        self.life += 1
        self._locked.clear()

    def snapshot(self) -> SimulatedNames:
        """The current state, synced and unsynced, for `restore`.  The bytes are shared, so this is cheap."""
        return self._names.copy()

    def restore(self, snapshot: SimulatedNames) -> None:
        """Return to a snapshot, as a new process.  The snapshot can be used again."""
        self._names = snapshot.copy()
        self.restart()

    def fork(self, random: Random) -> SimulatedDisk:
        """A second disk in the same state, with its own planned faults."""
        twin = SimulatedDisk(random, wall_ms=self._wall_ms, capacity_bytes=self.capacity_bytes)
        twin.operations = self.operations
        twin.restore(self._names)
        return twin

    def wall_ms(self) -> int:
        return START_WALL_MS + self.operations if self._wall_ms is None else self._wall_ms()

    # The Disk interface.

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        self.look(Kind.OPEN, path)
        place = self._names.tree.place(path)
        content = place.entry
        if isinstance(content, Folder):
            refuse(errno.EISDIR, path)
        if content is None:
            if not create:
                refuse(errno.ENOENT, path)
            content = SimulatedContent(canonical(path), self.wall_ms())
            self._start(Kind.CREATE, path)
            self._names.change(self.wall_ms(), (place, content))
            self.done()
        elif writable and self.read_only:
            refuse(errno.EROFS, path)
        return SimulatedFile(self, content, writable=writable)

    def exists(self, path: str) -> bool:
        self.look(Kind.STAT, path)
        return self._names.tree.find(path) is not None

    def is_folder(self, path: str) -> bool:
        self.look(Kind.STAT, path)
        return isinstance(self._names.tree.find(path), Folder)

    def names(self, path: str) -> list[str]:
        self.look(Kind.LIST, path)
        return sorted(self._names.tree.folder(path).entries)

    def size(self, path: str) -> int:
        self.look(Kind.STAT, path)
        entry = self._names.tree.entry(path)
        return 0 if isinstance(entry, Folder) else len(entry.data)

    def modified_ms(self, path: str) -> int:
        self.look(Kind.STAT, path)
        return self._names.tree.entry(path).modified_ms

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        self.check_power(self.life)
        entry = self._names.tree.entry(path)
        self._start(Kind.SET_MODIFIED, path)
        entry.modified_ms = wall_ms
        self.done()

    def make_folder(self, path: str) -> None:
        self.check_power(self.life)
        while (missing := self._names.tree.first_missing(path)) is not None:
            self._start(Kind.MAKE_FOLDER, missing)
            self._names.change(self.wall_ms(), (self._names.tree.place(missing), Folder(self.wall_ms())))
            self.done()

    def rename(self, old: str, new: str) -> None:
        self.check_power(self.life)
        places = self._names.tree.check_rename(old, new)
        if places is None:
            return
        self._start(Kind.RENAME, old)
        source, target = places
        moved = source.folder.entries[source.name]
        self._names.change(self.wall_ms(), (target, moved), (source, None))
        update_paths(moved, canonical(new))
        self.done()

    def remove(self, path: str) -> None:
        self.check_power(self.life)
        try:
            place = self._names.tree.place(path)
        except FileNotFoundError:
            return
        if isinstance(place.entry, Folder):
            refuse(errno.EISDIR, path)
        if place.entry is not None:
            self._start(Kind.REMOVE, path)
            self._names.change(self.wall_ms(), (place, None))
            self.done()

    def remove_tree(self, path: str) -> None:
        """One operation for each file and folder, so that power can fail in between."""
        self.check_power(self.life)
        try:
            folder = self._names.tree.folder(path)
        except FileNotFoundError:
            return
        for name in sorted(folder.entries):
            below = f"{path}/{name}"
            if isinstance(folder.entries[name], Folder):
                self.remove_tree(below)
            else:
                self.remove(below)
        self._start(Kind.REMOVE, path)
        self._names.change(self.wall_ms(), (self._names.tree.place(path), None))
        self.done()

    def sync_folder(self, path: str) -> None:
        self.check_power(self.life)
        folder = self._names.tree.folder(path)
        self._start(Kind.SYNC_FOLDER, path)
        self._names.sync(folder)
        self.done()

    def free_bytes(self, path: str) -> int:
        self.look(Kind.STAT, path)
        self._names.tree.entry(path)
        if self.capacity_bytes is None:
            return UNLIMITED_BYTES
        return max(0, self.capacity_bytes - self.used_bytes())

    def total_bytes(self, path: str) -> int:
        self.look(Kind.STAT, path)
        self._names.tree.entry(path)
        return UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes

    def lock(self, path: str) -> SimulatedLock:
        self.look(Kind.LOCK, path)
        if canonical(path) in self._locked:
            refuse(errno.EAGAIN, path)
        self.open(path, create=True)
        self._locked.add(canonical(path))
        return SimulatedLock(self, canonical(path))

    # For handles and locks of this disk.

    def check_power(self, life: int) -> None:
        if not self._on:
            raise PowerLost("the power is off: restart() the disk and reopen everything")
        if life != self.life:
            raise PowerLost("this handle belongs to a process that has ended: reopen the file")

    def look(self, kind: Kind, path: str) -> None:
        """An operation that changes nothing: it can fail and take time."""
        self.check_power(self.life)
        self._start(kind, path)

    def unlock(self, path: str) -> None:
        self._locked.discard(path)

    def space_for(self, content: SimulatedContent, offset: int, length: int) -> int:
        """How many of these bytes can be written before the disk is full."""
        if self.capacity_bytes is None:
            return length
        growth = offset + length - len(content.data)
        missing = max(0, growth - (self.capacity_bytes - self.used_bytes()))
        return length if growth <= 0 else max(0, length - missing)

    def used_bytes(self) -> int:
        return sum(len(content.data) for content in self._names.files())

    def _start(self, kind: Kind, path: str) -> None:
        fault = self.begin(kind, path)
        if fault is not None:
            raise fault.error(path)
