"""The commands in the documentation work, and print the documented output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import pages
from tests.docs.reader import Reader, reader_in

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
# Pages that `make verify`, `make suites`, `make fuzz` and `make nemesis` write.
OF_CAMPAIGNS = ("verified.md", "compatibility.md", "stall.md", "nemesis.md")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with reader_in(tmp_path) as reader:
        yield reader


@pytest.mark.parametrize("path", pages(DOCS), ids=lambda path: path.stem)
def test_the_commands_of_a_page_work(path: Path, reader: Reader) -> None:
    reader.follow(path.read_text("utf-8"))


def test_the_test_of_the_first_page_passes(reader: Reader) -> None:
    page = (PROJECT / "README.md").read_text("utf-8")
    section = page.split("\n## Test with it\n", 1)[1].split("\n## ", 1)[0]
    code = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    assert len([line for line in code[0].splitlines() if line]) <= 6, "a newcomer reads six lines"
    reader.follow(section)


def test_the_suites_of_the_first_page_are_those_of_their_record() -> None:
    """The last two columns of the record are about ZooKeeper."""
    recorded = {
        cells[0].partition("]")[0].strip("["): cells[1:5]
        for cells in _rows((DOCS / "compatibility.md").read_text("utf-8"), 8)
        if cells[0].startswith("[")
    }
    shown = {cells[0]: cells[1:] for cells in _rows((PROJECT / "README.md").read_text("utf-8"), 5)}
    shown = {name: cells for name, cells in shown.items() if name in recorded}
    assert shown == {name: cells for name, cells in recorded.items() if name != "librdkafka-three"}


def _rows(page: str, columns: int) -> list[list[str]]:
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in cells] for cells in rows if len(cells) == columns]


@pytest.mark.parametrize("path", [PROJECT / "README.md", *DOCS.rglob("*.md")], ids=lambda path: path.stem)
def test_links_have_targets(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", path.read_text("utf-8"))
    there = [path.parent / link for link in links if not re.match(r"https?:", link)]
    assert [link for link in there if not link.exists() and link.name not in OF_CAMPAIGNS] == []
