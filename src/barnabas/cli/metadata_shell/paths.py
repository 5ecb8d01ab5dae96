"""Paths of the metadata shell: relative or absolute, with dots, with patterns (`*`, `?`, `{a,b}`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.cli.metadata_shell.nodes import Folder, Node


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node and its path from the root."""

    path: tuple[str, ...]
    node: Node

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else "/"

    @property
    def absolute(self) -> str:
        return "/" + "/".join(self.path)


def components(path: str, working_folder: str) -> list[str]:
    """The components of a path, without dots and without repeated or trailing slashes."""
    absolute = path if path.startswith("/") else f"{working_folder}/{path}"
    kept: list[str] = []
    for part in absolute.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return kept


def find(root: Node, path: str, working_folder: str = "/") -> list[FoundNode]:
    """The nodes that match a path or pattern, sorted by name."""
    return list(_matching(FoundNode((), root), components(path, working_folder)))


def _matching(found: FoundNode, parts: list[str]) -> Iterator[FoundNode]:
    if not parts:
        yield found
        return
    if not isinstance(found.node, Folder):
        return
    pattern = compile_pattern(parts[0])
    names = [parts[0]] if pattern is None else found.node.sorted_names()
    for name in names:
        if pattern is None or pattern.fullmatch(name):
            child = found.node.child(name)
            if child is not None:
                yield from _matching(FoundNode((*found.path, name), child), parts[1:])


def compile_pattern(part: str) -> re.Pattern[str] | None:
    """The regular expression of a pattern; None for a plain name, and for a malformed pattern, which is taken
    literally.

    A backslash escapes the next character, but only within a pattern.
    """
    expression: list[str] = []
    plain, in_group = True, False
    characters = iter(part)
    for character in characters:
        if character in "?*":
            plain = False
            expression.append("." if character == "?" else ".*")
        elif character == "\\":
            expression.append(re.escape(next(characters, "\\")))
        elif character == "{":
            if in_group:
                return None
            plain, in_group = False, True
            expression.append("(?:(?:")
        elif character == "," and in_group:
            expression.append(")|(?:")
        elif character == "}" and in_group:
            in_group = False
            expression.append("))")
        else:
            expression.append(re.escape(character))
    return None if plain or in_group else re.compile("".join(expression), re.DOTALL)
