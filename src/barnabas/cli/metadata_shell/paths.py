"""Paths of the metadata shell: relative or absolute, with dots, with patterns (`*`, `?`, `{a,b}`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.cli.metadata_shell.nodes import Folder, Node


@dataclass(frozen=True, slots=True)
class Place:
    """A node and how to get there from the root."""

    path: tuple[str, ...]
    node: Node

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else "/"

    @property
    def absolute(self) -> str:
        return "/" + "/".join(self.path)


def components(path: str, working_folder: str) -> list[str]:
    """The names on the way, without dots and without doubled or trailing slashes."""
    whole = path if path.startswith("/") else f"{working_folder}/{path}"
    kept: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return kept


def find(root: Node, path: str, working_folder: str = "/") -> list[Place]:
    """The nodes that a path or pattern means, in the order of their names; none if there are none."""
    return list(_matching(Place((), root), components(path, working_folder)))


def _matching(place: Place, rest: list[str]) -> Iterator[Place]:
    if not rest:
        yield place
        return
    if not isinstance(place.node, Folder):
        return
    pattern = compile_pattern(rest[0])
    names = [rest[0]] if pattern is None else place.node.sorted_names()
    for name in names:
        if pattern is None or pattern.fullmatch(name):
            child = place.node.child(name)
            if child is not None:
                yield from _matching(Place((*place.path, name), child), rest[1:])


def compile_pattern(part: str) -> re.Pattern[str] | None:
    """The expression that a pattern stands for; None for a plain name, and for a pattern with a fault,
    which then means itself.

    A backslash takes its meaning from the character after it, but only within a pattern.
    """
    written: list[str] = []
    plain, in_group = True, False
    characters = iter(part)
    for character in characters:
        if character in "?*":
            plain = False
            written.append("." if character == "?" else ".*")
        elif character == "\\":
            written.append(re.escape(next(characters, "\\")))
        elif character == "{":
            if in_group:
                return None
            plain, in_group = False, True
            written.append("(?:(?:")
        elif character == "," and in_group:
            written.append(")|(?:")
        elif character == "}" and in_group:
            in_group = False
            written.append("))")
        else:
            written.append(re.escape(character))
    return None if plain or in_group else re.compile("".join(written), re.DOTALL)
