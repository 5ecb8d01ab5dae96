"""Names on the simulated disk, and which of them survive a power loss.

Contains the folders, their unsynced changes, and how to undo those.  The bytes of files belong in
simulated.file, errors and the Disk interface in simulated.disk.

Names follow POSIX at its strictest: a create, rename or removal is durable only once its folder is synced,
and a synced name in a folder whose own name was not synced is unreachable.  Of the unsynced changes in a
folder a prefix survives, as on a journaling file system.  A rename between folders is atomic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.runtime.disk.file_tree import FileTree, Folder, Place
from barnabas.runtime.random import Random
from barnabas.runtime.simulated.file import SimulatedContent, Survival

SimulatedFolder = Folder[SimulatedContent]
Entry = SimulatedContent | SimulatedFolder


@dataclass(frozen=True, slots=True)
class NameChange:
    """The previous entry of a name; None if it was free."""

    folder: SimulatedFolder
    name: str
    before: Entry | None


NameOperation = tuple[NameChange, ...]
"""Changes of names that happen atomically."""


class SimulatedNames:
    """The tree as programs see it, and the changes that a power loss may undo."""

    __slots__ = ("_unsynced", "tree")

    def __init__(self, root: SimulatedFolder) -> None:
        self.tree: FileTree[SimulatedContent] = FileTree(root)
        self._unsynced: list[NameOperation] = []

    def change(self, wall_ms: int, *changes: tuple[Place[SimulatedContent], Entry | None]) -> None:
        """Set the entries of names (None removes one), atomically."""
        self._unsynced.append(
            tuple(NameChange(place.folder, place.name, place.entry) for place, _ in changes)
        )
        for place, entry in changes:
            _put(place.folder, place.name, entry)
            place.folder.modified_ms = wall_ms

    def sync(self, folder: SimulatedFolder) -> None:
        """Make the changes in this folder durable."""
        # A rename between folders is atomic: it includes the earlier changes in the other folder.
        needed = {id(folder)}
        unsynced: list[NameOperation] = []
        for operation in reversed(self._unsynced):
            folders = {id(change.folder) for change in operation}
            if folders & needed:
                needed |= folders
            else:
                unsynced.append(operation)
        self._unsynced = unsynced[::-1]

    def lose_power(self, random: Random) -> None:
        """Keep all, none or a prefix of each folder's unsynced operations; undo the others, latest first."""
        survival = Survival(random.integer(0, 3))
        stopped: set[int] = set()
        undone: list[NameOperation] = []
        for operation in self._unsynced:
            folders = {id(change.folder) for change in operation}
            lost = survival is Survival.NOTHING or (
                survival is not Survival.EVERYTHING and random.integer(0, len(self._unsynced)) == 0
            )
            if lost or folders & stopped:
                stopped |= folders
                undone.append(operation)
        for operation in reversed(undone):
            for change in operation:
                _put(change.folder, change.name, change.before)
        self._unsynced.clear()
        update_paths(self.tree.root, "")

    def files(self) -> Iterator[SimulatedContent]:
        """Every file, in the order of names: a draw for each must depend on nothing else."""
        return _files_below(self.tree.root)

    def copy(self) -> SimulatedNames:
        """An independent copy: every folder and file is copied once, however often it is named."""
        twins = _Twins()
        twin = SimulatedNames(twins.folder(self.tree.root))
        twin._unsynced = [tuple(map(twins.change, operation)) for operation in self._unsynced]
        return twin


class _Twins:
    """Copies made so far, by the identity of the original."""

    __slots__ = ("_files", "_folders")

    def __init__(self) -> None:
        self._folders: dict[int, SimulatedFolder] = {}
        self._files: dict[int, SimulatedContent] = {}

    def folder(self, folder: SimulatedFolder) -> SimulatedFolder:
        twin = self._folders.get(id(folder))
        if twin is None:
            twin = self._folders[id(folder)] = Folder(folder.modified_ms)
            twin.entries = {name: self.entry(entry) for name, entry in folder.entries.items()}
        return twin

    def entry(self, entry: Entry) -> Entry:
        if isinstance(entry, Folder):
            return self.folder(entry)
        twin = self._files.get(id(entry))
        if twin is None:
            twin = self._files[id(entry)] = entry.copy()
        return twin

    def change(self, change: NameChange) -> NameChange:
        before = None if change.before is None else self.entry(change.before)
        return NameChange(self.folder(change.folder), change.name, before)


def update_paths(entry: Entry, path: str) -> None:
    """Set the current paths of the files, which handles show."""
    if isinstance(entry, Folder):
        for name, below in entry.entries.items():
            update_paths(below, f"{path}/{name}")
    else:
        entry.path = path


def _put(folder: SimulatedFolder, name: str, entry: Entry | None) -> None:
    if entry is None:
        folder.entries.pop(name, None)
    else:
        folder.entries[name] = entry


def _files_below(folder: SimulatedFolder) -> Iterator[SimulatedContent]:
    for _, entry in sorted(folder.entries.items()):
        if isinstance(entry, Folder):
            yield from _files_below(entry)
        else:
            yield entry
