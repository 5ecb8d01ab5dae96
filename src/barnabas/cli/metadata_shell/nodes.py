"""The nodes of the metadata shell's tree: folders and leaves.

Contains the two kinds of nodes and how they print; the contents of the tree belong in `tree`.  Children are
created on demand, so that only the visited parts of a large image cost time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

INDENT = "  "


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file: one line."""

    text: str


@dataclass(frozen=True, slots=True)
class Folder:
    """Children by name; `child` returns None for an unknown name."""

    names: Callable[[], Iterable[str]]
    child: Callable[[str], Node | None]

    def sorted_names(self) -> list[str]:
        return sorted(self.names())

    def children(self) -> Iterator[tuple[str, Node | None]]:
        """Names and nodes, sorted; a listed name may have no node."""
        return ((name, self.child(name)) for name in self.sorted_names())


Node = Folder | Leaf


def folder(children: dict[str, Node]) -> Folder:
    """A folder with the given children."""
    return Folder(lambda: children, children.get)


def lines_of(node: Node, depth: int = 0) -> Iterator[str]:
    """The lines of a node: those of a folder are its children, indented."""
    if isinstance(node, Leaf):
        yield INDENT * depth + node.text
        return
    for name, child in node.children():
        yield f"{INDENT * depth}{name}:"
        if child is not None:
            yield from lines_of(child, depth + 1)
