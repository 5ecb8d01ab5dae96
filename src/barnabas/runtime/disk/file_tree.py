"""A tree of folders in memory: lookups, and the errors of a real file system.

Contains lookups and checks, shared by the memory disk and the simulated disk.  The content of files and
changes of the tree belong in those disks, since the simulated disk must be able to undo changes.
"""

from __future__ import annotations

import errno
import posixpath
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from barnabas.runtime.disk.disk import refuse

F = TypeVar("F")

# Paths whose names are remembered: a simulated disk asks for the same ones all the time.
PATHS_MAX = 8192


class Folder(Generic[F]):
    """Names and their entries: a file of the owner's type, or a folder."""

    __slots__ = ("entries", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.entries: dict[str, F | Folder[F]] = {}
        self.modified_ms = modified_ms


@dataclass(frozen=True, slots=True)
class Place(Generic[F]):
    """A name in a folder, in use or free."""

    folder: Folder[F]
    name: str

    @property
    def entry(self) -> F | Folder[F] | None:
        return self.folder.entries.get(self.name)


@lru_cache(maxsize=PATHS_MAX)
def components(path: str) -> tuple[str, ...]:
    """The names on the path from the root.  A relative path starts at the root too."""
    if "." in path or "//" in path:
        path = posixpath.normpath("/" + path)
    return tuple(name for name in path.split("/") if name)


def canonical(path: str) -> str:
    return "/" + "/".join(components(path))


class FileTree(Generic[F]):
    """The root folder, and lookups below it."""

    __slots__ = ("root",)

    def __init__(self, root: Folder[F]) -> None:
        self.root = root

    def find(self, path: str) -> F | Folder[F] | None:
        """The entry at this path, or None."""
        entry: F | Folder[F] | None = self.root
        for name in components(path):
            if not isinstance(entry, Folder):
                return None
            entry = entry.entries.get(name)
        return entry

    def entry(self, path: str) -> F | Folder[F]:
        """The entry at this path; raises if there is none."""
        return self._walk(components(path), path)

    def _walk(self, names: tuple[str, ...], path: str) -> F | Folder[F]:
        entry: F | Folder[F] = self.root
        for name in names:
            if not isinstance(entry, Folder):
                refuse(errno.ENOTDIR, path)
            below = entry.entries.get(name)
            if below is None:
                refuse(errno.ENOENT, path)
            entry = below
        return entry

    def folder(self, path: str) -> Folder[F]:
        entry = self.entry(path)
        if not isinstance(entry, Folder):
            refuse(errno.ENOTDIR, path)
        return entry

    def place(self, path: str) -> Place[F]:
        """The last name of the path, in a folder that must exist."""
        names = components(path)
        if not names:
            refuse(errno.EISDIR, path)
        folder = self._walk(names[:-1], path)
        if not isinstance(folder, Folder):
            refuse(errno.ENOTDIR, path)
        return Place(folder, names[-1])

    def first_missing(self, path: str) -> str | None:
        """The first missing folder on this path; EEXIST or ENOTDIR when a file is in the way."""
        names = components(path)
        entry: F | Folder[F] | None = self.root
        for index, name in enumerate(names):
            if not isinstance(entry, Folder):
                refuse(errno.ENOTDIR, path)
            entry = entry.entries.get(name)
            if entry is None:
                return "/" + "/".join(names[: index + 1])
        if not isinstance(entry, Folder):
            refuse(errno.EEXIST, path)
        return None

    def check_rename(self, old: str, new: str) -> tuple[Place[F], Place[F]] | None:
        """Both places when the rename is allowed; None when it changes nothing."""
        source = self.place(old)
        moved = source.entry
        if moved is None:
            refuse(errno.ENOENT, old)
        target = self.place(new)
        replaced = target.entry
        if moved is replaced:
            return None
        if isinstance(moved, Folder):
            if (canonical(new) + "/").startswith(canonical(old) + "/"):
                refuse(errno.EINVAL, new)
            if replaced is not None and not isinstance(replaced, Folder):
                refuse(errno.ENOTDIR, new)
            if replaced is not None and replaced.entries:
                refuse(errno.ENOTEMPTY, new)
        elif isinstance(replaced, Folder):
            refuse(errno.EISDIR, new)
        return source, target
