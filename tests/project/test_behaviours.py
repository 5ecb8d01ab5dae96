"""docs/behaviours.md is correct: it lists every id, and built behaviours are proved by a test that runs."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
COUNTS = {"A": 9, "B": 6, "C": 11, "D": 9, "E": 5, "F": 3, "G": 4, "H": 3, "I": 4, "J": 3}
ALL_IDS = {f"M-{letter}{n}" for letter, count in COUNTS.items() for n in range(1, count + 1)}
ROW = re.compile(r"^\| (M-[A-J]\d+) \| (.+?) \| (built|part|later) \| (.*?) ?\|$", re.M)
CITED = re.compile(r"\bM-[A-J]\d+\b")


def states() -> dict[str, str]:
    text = (PROJECT / "docs" / "behaviours.md").read_text("utf-8")
    return {found[1]: found[3] for found in ROW.finditer(text)}


def is_skipped(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(
        "skip" in ast.unparse(decorator) or "xfail" in ast.unparse(decorator) for decorator in decorators
    )


def citations(source: str) -> set[str]:
    """The ids cited in a test that runs: in its body, its decorators or the comments directly above it."""
    lines, cited = source.splitlines(), set()
    tree = ast.parse(source)
    module_skips = re.search(r"^pytestmark = .*skip", source, re.M)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        if module_skips or is_skipped(node):
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
        while first > 0 and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        cited |= set(CITED.findall("\n".join(lines[first : node.end_lineno])))
    return cited


def test_every_required_id_is_listed_once() -> None:
    text = (PROJECT / "docs" / "behaviours.md").read_text("utf-8")
    listed = [found[1] for found in ROW.finditer(text)]
    assert sorted(listed) == sorted(ALL_IDS)


@functools.cache
def cited_by_tests() -> frozenset[str]:
    sources = (
        path.read_text("utf-8") for path in (PROJECT / "tests").rglob("test_*.py") if path != Path(__file__)
    )
    return frozenset().union(*(citations(source) for source in sources if CITED.search(source)))


@pytest.mark.parametrize("identifier", sorted(name for name, state in states().items() if state == "built"))
def test_built_behaviours_are_cited_by_a_test_that_runs(identifier: str) -> None:
    assert identifier in cited_by_tests(), (
        f"{identifier} is marked built in docs/behaviours.md, and no unskipped test cites it"
    )


def test_a_citation_in_a_skipped_test_does_not_count() -> None:
    skipped = "import pytest\n\n# M-E1\n@pytest.mark.skip(reason='x')\ndef test_a() -> None:\n    pass\n"
    running = "# M-E1\ndef test_a() -> None:\n    assert 1  # M-E2\n"
    assert citations(skipped) == set()
    assert citations(running) == {"M-E1", "M-E2"}
