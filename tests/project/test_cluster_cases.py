"""docs/explanation/cluster.md lists what happens in clusters; each case has tests that cite its number."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.project.test_behaviours import is_skipped

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "explanation" / "cluster.md"
CASES = 27
# Named below the table: seeds and histories in which many of the cases happen.
BELOW = re.compile(
    r"tests/(?:testing/test_(?:replication|replicas|raft_quorum)|verify/quorum/test_quorum_histories)\.py::"
)
ROW = re.compile(r"^\| (\d+) \|(.*)", re.M)
NAMED = re.compile(r"`(tests/[\w/.-]+::\w+)`")
# `cluster.md 7`, `cluster.md 3, 23`, `cluster.md 1-17 and 27`, `cluster.md 18 to 22, 26, 27`.
CITED = re.compile(r"cluster\.md (\d+(?:(?:-|, | to | and )\d+)*)")
PART = re.compile(r"(\d+)(?:(?:-| to )(\d+))?")


@cache
def listed() -> dict[int, set[str]]:
    """The tests of each case, as the page names them."""
    return {int(row[1]): set(NAMED.findall(row[2])) for row in ROW.finditer(PAGE.read_text("utf-8"))}


@cache
def citing() -> dict[int, set[str]]:
    """The tests that cite each case."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in (PROJECT / "tests").rglob("test_*.py"):
        text = path.read_text("utf-8")
        if "cluster.md" in text and path != Path(__file__).resolve():
            for name, source in functions(text):
                for number in numbers(source):
                    found[number].add(f"{path.relative_to(PROJECT).as_posix()}::{name}")
    return found


def functions(text: str) -> list[tuple[str, str]]:
    """The tests of a file that are not skipped, each with its lines."""
    lines = text.splitlines()
    return [
        (node.name, "\n".join(lines[node.lineno - 1 : node.end_lineno]))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not is_skipped(node)
    ]


def numbers(source: str) -> set[int]:
    found: set[int] = set()
    for cited in CITED.findall(source):
        for first, last in PART.findall(cited):
            found.update(range(int(first), int(last or first) + 1))
    return found


def test_the_page_numbers_them_without_a_gap() -> None:
    assert list(listed()) == list(range(1, CASES + 1))


def test_every_case_has_a_test() -> None:
    assert [number for number, tests in listed().items() if not tests] == []


def test_every_test_on_the_page_exists_and_cites_its_case() -> None:
    wrong = {number: sorted(tests - citing()[number]) for number, tests in listed().items()}
    assert {number: tests for number, tests in wrong.items() if tests} == {}


def test_every_test_that_cites_a_case_is_on_the_page() -> None:
    left_out = {
        number: sorted(test for test in tests - listed().get(number, set()) if not BELOW.match(test))
        for number, tests in citing().items()
    }
    assert {number: tests for number, tests in left_out.items() if tests} == {}
