"""The tree that the metadata shell walks: folders and leaves.

What lives here: the two kinds of nodes and how they print.  What may not: what is in the tree (`tree`).
Children are made when somebody asks for them, so that a large image costs what is looked at.
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
    """Children by name; `child` gives None for a name that is not there."""

    names: Callable[[], Iterable[str]]
    child: Callable[[str], Node | None]

    def sorted_names(self) -> list[str]:
        return sorted(self.names())

    def children(self) -> Iterator[tuple[str, Node | None]]:
        """Names and nodes, in order; a name may be listed and have nothing behind it."""
        return ((name, self.child(name)) for name in self.sorted_names())


Node = Folder | Leaf


def folder(children: dict[str, Node]) -> Folder:
    """A folder whose children are known."""
    return Folder(lambda: children, children.get)


def lines_of(node: Node, depth: int = 0) -> Iterator[str]:
    """A node printed: a leaf is its line, a folder its children below one another, indented."""
    if isinstance(node, Leaf):
        yield INDENT * depth + node.text
        return
    for name, child in node.children():
        yield f"{INDENT * depth}{name}:"
        if child is not None:
            yield from lines_of(child, depth + 1)
