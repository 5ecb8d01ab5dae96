"""docs/explanation/found-faults.md lists every fault that was found, and each test that it names exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "explanation" / "found-faults.md"
NUMBERED = 16
# Faults that were planted by hand, and that no test noticed at first.
PLANTED = 23
ROW = re.compile(r"^\| (?P<first>[^|]+) \|", re.M)
NAMED_TEST = re.compile(r"`(tests/[\w/.-]+)::(\w+)`")
NAMED_FILE = re.compile(r"`((?:tests|docs)/[\w/.-]+\.\w+)(?:::\w+)?`")
PLANTED_PART = re.compile(r"^### Faults that were planted.*?(?=^## )", re.M | re.S)


@cache
def page() -> str:
    return PAGE.read_text("utf-8")


@cache
def names_in(path: str) -> frozenset[str]:
    file = PROJECT / path
    if not file.is_file():
        return frozenset()
    return frozenset(re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text("utf-8"), re.M))


def test_every_numbered_fault_has_a_row() -> None:
    numbers = [row["first"] for row in ROW.finditer(page()) if re.fullmatch(r"F\d+", row["first"])]
    assert numbers == [f"F{number}" for number in range(1, NUMBERED + 1)]


def test_every_numbered_fault_names_a_test() -> None:
    rows = [line for line in page().splitlines() if re.match(r"\| F\d+ \|", line)]
    assert [row[:8] for row in rows if not NAMED_TEST.search(row)] == []


def test_every_planted_fault_names_a_test() -> None:
    part = PLANTED_PART.search(page())
    assert part is not None
    rows = [line for line in part[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) == PLANTED
    assert [row for row in rows if not NAMED_TEST.search(row)] == []


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED_TEST.findall(page())}))
def test_the_tests_named_on_the_page_exist(path: str) -> None:
    named = {name for file, name in NAMED_TEST.findall(page()) if file == path}
    assert sorted(named - names_in(path)) == []


@pytest.mark.parametrize("path", sorted(set(NAMED_FILE.findall(page()))))
def test_the_files_named_on_the_page_exist(path: str) -> None:
    assert (PROJECT / path).is_file()
