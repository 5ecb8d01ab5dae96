"""Every trap of a built part has a test that runs, and every test with the marker names its trap."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.project.test_behaviours import is_skipped

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "explanation" / "traps.md"
# Those of the log, of one broker and of the command line.
BUILT = {1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27}
# `Trap 6: …`, `6: …`, `Traps 3, 4 and 20: …`.
NAMED = re.compile(r"(?:Traps? )?((?:\d+(?:, | and )?)+): \S")


@cache
def traps() -> dict[int, list[str]]:
    """The tests of each trap, by number."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in (PROJECT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_trap(node):
                for number in numbers(node, path):
                    found[number].append(f"{path.relative_to(PROJECT)}::{node.name}")
    return found


def is_trap(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = [ast.unparse(decorator) for decorator in node.decorator_list]
    return "pytest.mark.trap" in marks and not is_skipped(node)


def numbers(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> list[int]:
    named = NAMED.match(ast.get_docstring(node) or "")
    assert named, (
        f"{path}: {node.name} is marked `trap`; let its docstring begin with `Trap N: `, and the line"
    )
    return [int(number) for number in re.findall(r"\d+", named[1])]


def listed() -> list[int]:
    return [int(number) for number in re.findall(r"^\| (\d+) \|", PAGE.read_text("utf-8"), re.M)]


def test_the_page_numbers_them_without_a_gap() -> None:
    assert listed() == list(range(1, 28))


def test_every_trap_of_a_built_part_has_a_test() -> None:
    assert sorted(BUILT - set(traps())) == []


def test_no_test_is_for_an_unknown_trap() -> None:
    assert sorted(set(traps()) - set(listed())) == []
