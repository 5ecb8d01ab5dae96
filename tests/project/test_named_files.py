"""Every Python file that a docstring or comment names exists, so that a reader can follow the name."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "src" / "barnabas"
FOLDERS = ("src", "tests", "tools", "bench", "examples")
# With or without folders; not a string such as "orders.py", which is an example.
NAMED_FILE = re.compile(r"""(?<![\w./{<*"'-])((?:[\w-]+/)*[A-Za-z_]\w*\.py)\b""")
# In src there are 214 today: far fewer would mean that the search does not see them.
FEWEST_NAMES = 100


def remarks(path: Path) -> Iterator[str]:
    """The docstrings and comments of a file."""
    text = path.read_text("utf-8")
    if not NAMED_FILE.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def named_files(folder: str) -> Iterator[tuple[Path, str]]:
    for path in sorted((PROJECT / folder).rglob("*.py")):
        for remark in remarks(path):
            yield from ((path, name) for name in NAMED_FILE.findall(remark))


def is_found(named_in: Path, name: str) -> bool:
    """Relative to barnabas, to the project, or to the folder of the file that names it."""
    return any((base / name).is_file() for base in (SOURCES, PROJECT, named_in.parent))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_named_file_exists(folder: str) -> None:
    missing = [
        f"{path.relative_to(PROJECT)} names {name}"
        for path, name in named_files(folder)
        if not is_found(path, name)
    ]
    assert missing == []


def test_the_search_sees_names_in_docstrings_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""See replica/partition.py, `load("orders.py")`."""\n# nowhere/lost.py, and module.py\n', "utf-8"
    )
    names = [name for remark in remarks(path) for name in NAMED_FILE.findall(remark)]
    assert names == ["nowhere/lost.py", "module.py", "replica/partition.py"]
    assert [name for name in names if not is_found(path, name)] == ["nowhere/lost.py"]
    assert sum(1 for _ in named_files("src")) > FEWEST_NAMES
