"""A bounded cache of open descriptors, so that tens of thousands of files fit under a small `ulimit -n`.

Contains which files have handles, which of them have a descriptor now, and how both follow renames and
removals.  Reading and writing belong in descriptor_io, the Disk interface in folder_disk.

A file without an operation or a slice in progress is idle; beyond the cap the least recently used idle file
loses its descriptor and gets a new one when it is next used.  No written data is lost by that: the kernel has
it.  Linux reports a write-back error that was not reported yet to the first sync of a later descriptor; a
reported error is kept on the file and raised by every later sync, since the kernel forgets it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

from barnabas.runtime.disk.disk import Buffer, refuse

OPEN_FILES_MAX = 1024
"""Descriptors for files.  A quarter of the usual 4,096; the others are for connections and slices."""

_CLOSED = -1


class CachedFile:
    """One file that has handles or slices; its descriptor may be closed and reopened."""

    __slots__ = (
        "descriptor",
        "failure",
        "handles",
        "identity",
        "nameless",
        "path",
        "pins",
        "size",
        "writable",
    )

    def __init__(self, path: str, descriptor: int, *, writable: bool, status: os.stat_result) -> None:
        self.path = path
        self.descriptor = descriptor
        self.writable = writable
        self.identity = (status.st_dev, status.st_ino)
        self.size = status.st_size
        self.handles = 0
        self.pins = 0
        self.nameless = False
        self.failure: OSError | None = None


class DescriptorCache:
    """The files of one disk.  Thread-safe; the lock is never held during reads, writes and syncs."""

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self._open_files_max = open_files_max
        self._lock = threading.Lock()
        # Files that have a descriptor and a name by which to reopen it, the most recently used last.
        self._closable: OrderedDict[CachedFile, None] = OrderedDict()
        self._open_count = 0
        self._by_folder: dict[str, dict[str, CachedFile]] = {}
        # The folders of `_by_folder`, sorted, so that the subfolders of a folder are adjacent.
        self._folders: list[str] = []
        self._dropped_pins: deque[CachedFile] = deque()
        self._slices = 0

    @property
    def open_count(self) -> int:
        return self._open_count

    def open(self, path: str, *, create: bool, writable: bool) -> CachedFile:
        """A file with one more handle; FileNotFoundError unless it exists or `create`."""
        with self._locked():
            file = self._known(path)
            if file is not None and not self._still_named(file):
                self._make_nameless(file)
                file = None
            if file is None:
                file = self._first_open(path, create=create, writable=writable)
            elif writable and not file.writable:
                self._make_writable(file)
            file.handles += 1
            return file

    def close(self, file: CachedFile) -> None:
        with self._locked():
            file.handles -= 1
            self._settle(file)

    def pin(self, file: CachedFile) -> int:
        """The file's descriptor, which stays open until `unpin`."""
        with self._lock:
            if self._dropped_pins:
                self._take_dropped_pins()
            if file.descriptor == _CLOSED:
                self._reopen(file)
            elif not file.nameless:
                self._closable.move_to_end(file)
            file.pins += 1
            return file.descriptor

    def unpin(self, file: CachedFile) -> None:
        with self._lock:
            file.pins -= 1
            if not file.pins and (not file.handles or self._open_count > self._open_files_max):
                self._settle(file)

    def append(self, file: CachedFile, parts: Sequence[Buffer]) -> int:
        """Append with one system call; returns the number of bytes written, which may be less than all.

        `pin`, the write, and `unpin` in one: the log appends many thousand times a second.
        """
        lock = self._lock
        with lock:
            if self._dropped_pins:
                self._take_dropped_pins()
            if file.descriptor == _CLOSED:
                self._reopen(file)
            elif not file.nameless:
                self._closable.move_to_end(file)
            file.pins += 1
        try:
            written = os.pwritev(file.descriptor, parts, file.size)
            file.size += written
            return written
        except OSError:
            file.size = os.fstat(file.descriptor).st_size
            raise
        finally:
            with lock:
                file.pins -= 1
                if not file.pins and (not file.handles or self._open_count > self._open_files_max):
                    self._settle(file)

    def has_room_for_slice(self, file: CachedFile) -> bool:
        """Whether a slice may keep this file's descriptor open.

        Slices may keep half of all descriptors: a fetch of ten thousand partitions must not take them all.
        """
        return file.pins > 0 or 2 * self._slices < self._open_files_max

    def pin_slice(self, file: CachedFile) -> int:
        """`pin` until `drop_pin`."""
        descriptor = self.pin(file)
        with self._lock:
            self._slices += 1
        return descriptor

    def drop_pin(self, file: CachedFile) -> None:
        """Undo `pin_slice`, for finalizers.

        The garbage collector may run a finalizer at any statement, even in a thread that holds the lock: then
        the pin is queued for the next owner of the lock.
        """
        self._dropped_pins.append(file)
        if self._lock.acquire(blocking=False):
            try:
                self._take_dropped_pins()
            finally:
                self._lock.release()

    def rename(self, old: str, new: str) -> None:
        """Rename on disk; open files follow."""
        with self._locked():
            file, replaced = self._known(old), self._known(new)
            if replaced is file:
                replaced = None
            if replaced is not None:
                self._hold(replaced)
            os.replace(old, new)
            if old == new:
                return
            if replaced is not None:
                self._make_nameless(replaced)
            if file is not None:
                self._forget_name(file)
                file.path = new
                self._remember_name(file)
            else:
                self._move_below(old, new)

    def remove(self, path: str) -> None:
        with self._locked():
            file = self._known(path)
            if file is not None:
                self._hold(file)
                os.unlink(path)
                self._make_nameless(file)
                return
        os.unlink(path)

    def keep_below(self, folder: str) -> None:
        """Called before a folder is removed: keeps the descriptors of all its files that are in use."""
        with self._locked():
            for file in self._below(folder):
                self._hold(file)
                self._make_nameless(file)

    def give_back(self) -> bool:
        """Close an idle descriptor when the process has too many; False if none is idle."""
        with self._locked():
            return self._close_idle()

    # Everything below requires the lock.

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            if self._dropped_pins:
                self._take_dropped_pins()
            yield

    def _take_dropped_pins(self) -> None:
        while self._dropped_pins:
            file = self._dropped_pins.popleft()
            self._slices -= 1
            file.pins -= 1
            self._settle(file)

    def _settle(self, file: CachedFile) -> None:
        """Called when a handle or a pin was released: closes the file if nothing uses it."""
        if file.pins > 0:
            return
        if file.handles == 0:
            self._closable.pop(file, None)
            self._forget_name(file)
            if file.descriptor != _CLOSED:
                self._close_descriptor(file)
        elif self._open_count > self._open_files_max:
            self._make_room(0)

    def _make_room(self, wanted: int) -> None:
        while self._open_count + wanted > self._open_files_max:
            if not self._close_idle():
                return

    def _close_idle(self) -> bool:
        """Close the descriptor of the least recently used idle file; False if none is idle."""
        for file in self._closable:
            if not file.pins:
                del self._closable[file]
                self._close_descriptor(file)
                return True
        return False

    def _close_descriptor(self, file: CachedFile) -> None:
        descriptor, file.descriptor = file.descriptor, _CLOSED
        self._open_count -= 1
        try:
            os.close(descriptor)
        except OSError as error:
            file.failure = file.failure or error

    def _first_open(self, path: str, *, create: bool, writable: bool) -> CachedFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        descriptor = self._open_descriptor(path, flags)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            if stat.S_ISDIR(status.st_mode):
                refuse(errno.EISDIR, path)
            refuse(errno.EINVAL, path, "not a regular file")
        self._open_count += 1
        file = CachedFile(path, descriptor, writable=writable, status=status)
        self._remember_name(file)
        self._closable[file] = None
        return file

    def _reopen(self, file: CachedFile) -> None:
        advice = "another process replaced the file: let only one process use the folder"
        if file.nameless:
            refuse(errno.ESTALE, file.path, advice)
        descriptor = self._open_descriptor(file.path, os.O_RDWR if file.writable else os.O_RDONLY)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != file.identity:
            os.close(descriptor)
            refuse(errno.ESTALE, file.path, advice)
        file.descriptor = descriptor
        self._open_count += 1
        self._closable[file] = None

    def _hold(self, file: CachedFile) -> None:
        """Open a descriptor while the file still has a name; a file that has vanished is lost anyway."""
        if file.descriptor == _CLOSED:
            try:
                self._reopen(file)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                    raise

    def _make_writable(self, file: CachedFile) -> None:
        """Replace the descriptor in place, so that reads in progress on the old one are not disturbed."""
        descriptor = self._open_descriptor(file.path, os.O_RDWR)
        if file.descriptor == _CLOSED:
            file.descriptor = descriptor
            self._open_count += 1
            self._closable[file] = None
        else:
            os.dup2(descriptor, file.descriptor, inheritable=False)
            os.close(descriptor)
        file.size = os.fstat(file.descriptor).st_size
        file.writable = True

    def _open_descriptor(self, path: str, flags: int) -> int:
        self._make_room(1)
        while True:
            try:
                # Opening a pipe would block, with the lock held, until its other end is opened.
                return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
            except OSError as error:
                # Connections may have used up the descriptors: close idle ones.
                if error.errno != errno.EMFILE or not self._close_idle():
                    raise

    def _still_named(self, file: CachedFile) -> bool:
        try:
            status = os.stat(file.path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == file.identity

    def _make_nameless(self, file: CachedFile) -> None:
        """Its name was removed: it cannot be reopened, so its descriptor stays open until its last use."""
        self._forget_name(file)
        self._closable.pop(file, None)
        file.nameless = True

    def _known(self, path: str) -> CachedFile | None:
        folder, _, name = path.rpartition("/")
        return self._by_folder.get(folder, {}).get(name)

    def _remember_name(self, file: CachedFile) -> None:
        folder, _, name = file.path.rpartition("/")
        names = self._by_folder.get(folder)
        if names is None:
            names = self._by_folder[folder] = {}
            insort(self._folders, folder)
        names[name] = file

    def _forget_name(self, file: CachedFile) -> None:
        folder, _, name = file.path.rpartition("/")
        names = self._by_folder.get(folder)
        if names is not None and names.get(name) is file:
            del names[name]
            if not names:
                del self._by_folder[folder]
                del self._folders[bisect_left(self._folders, folder)]

    def _below(self, folder: str) -> list[CachedFile]:
        """Every file in a folder or its subfolders; does not look at the tens of thousands of other
        folders."""
        first = bisect_left(self._folders, folder + "/")
        # No character lies between "/" and "0".
        last = bisect_left(self._folders, folder + "0")
        files = list(self._by_folder.get(folder, {}).values())
        for path in self._folders[first:last]:
            files += self._by_folder[path].values()
        return files

    def _move_below(self, old: str, new: str) -> None:
        for file in self._below(old):
            self._forget_name(file)
            file.path = new + file.path[len(old) :]
            self._remember_name(file)
