"""A mutant: one edit of one source file."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from itertools import accumulate


def package_of(path: str) -> str:
    """The folder below src/barnabas, or `barnabas` for the files directly in it."""
    parts = path.split("/")
    return parts[2] if len(parts) > 3 else "barnabas"


@dataclass(frozen=True, slots=True)
class Mutant:
    """Replaces the characters from `start` to `end` of a file by `after`."""

    path: str
    line: int
    end_line: int
    start: int
    end: int
    operator: str
    after: str

    @property
    def package(self) -> str:
        return package_of(self.path)

    @property
    def key(self) -> str:
        """Identifies the mutant among all mutants of the same sources."""
        return f"{self.path}:{self.start}-{self.end}:{self.operator}:{self.after}"

    def apply(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]

    def diff(self, text: str) -> str:
        """The lines that change, without a header."""
        before, after = text.splitlines(), self.apply(text).splitlines()
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))
        return "\n".join(line for line in lines[2:] if not line.startswith("@@"))


class Offsets:
    """Converts positions of the syntax tree (line, column in UTF-8 bytes) to character offsets."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, self._lines))]

    def at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)


def is_same_program(before: str, after: str) -> bool:
    """Whether an edit left the syntax tree unchanged."""
    return ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))
