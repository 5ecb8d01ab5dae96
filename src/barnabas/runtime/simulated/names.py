"""Names on the simulated disk, and which of them survive a power loss.

What lives here: the folders, their changes that are not synced, and how to undo those.  What may not: the
bytes of files (simulated_file), errors and the Disk interface (simulated_disk).

Names follow POSIX at its strictest: a create, rename or removal is sure only once its folder is synced, and a
synced name in a folder whose own name was not synced is out of reach.  Of what was not synced in a folder a
prefix in order survives, as a journaling file system leaves it.  A rename between folders is atomic.
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
    """What stood in one place before; None for nothing."""

    folder: SimulatedFolder
    name: str
    before: Entry | None


NameOperation = tuple[NameChange, ...]
"""Changes of names that happen together or not at all."""


class SimulatedNames:
    """The tree as programs see it, and what it takes to go back."""

    __slots__ = ("_unsynced", "tree")

    def __init__(self, root: SimulatedFolder) -> None:
        self.tree: FileTree[SimulatedContent] = FileTree(root)
        self._unsynced: list[NameOperation] = []

    def change(self, wall_ms: int, *changes: tuple[Place[SimulatedContent], Entry | None]) -> None:
        """Put entries in places (None empties one), all together."""
        self._unsynced.append(
            tuple(NameChange(place.folder, place.name, place.entry) for place, _ in changes)
        )
        for place, entry in changes:
            _put(place.folder, place.name, entry)
            place.folder.modified_ms = wall_ms

    def sync(self, folder: SimulatedFolder) -> None:
        """Make the changes in this folder lasting."""
        # A rename between folders is atomic: it takes with it what happened before in the other folder.
        needed = {id(folder)}
        left: list[NameOperation] = []
        for operation in reversed(self._unsynced):
            folders = {id(change.folder) for change in operation}
            if folders & needed:
                needed |= folders
            else:
                left.append(operation)
        self._unsynced = left[::-1]

    def lose_power(self, random: Random) -> None:
        """Of each folder's unsynced operations keep all, none or a prefix; undo the rest, latest first."""
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
        tell_paths(self.tree.root, "")

    def files(self) -> Iterator[SimulatedContent]:
        """Every file, in the order of names: a draw for each must depend on nothing else."""
        return _files_below(self.tree.root)

    def copy(self) -> SimulatedNames:
        """An independent twin: every folder and file copied once, however often it is named."""
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


def tell_paths(entry: Entry, path: str) -> None:
    """Let handles know what their files are called now."""
    if isinstance(entry, Folder):
        for name, below in entry.entries.items():
            tell_paths(below, f"{path}/{name}")
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
