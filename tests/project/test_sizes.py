"""Sizes that read well: folders of at most 15 files, modules of at most 520 lines, functions of at most 60."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
MOST_FILES = 15
MOST_LINES = 520
MOST_FUNCTION_LINES = 60
# One file for each thing of a list that others keep: an API, a record, an option table.
ONE_FILE_EACH = (
    "src/barnabas/broker/handlers",
    "src/barnabas/protocol/messages",
    "src/barnabas/protocol/records",
    "src/barnabas/config/tables",
    "tests/broker/handlers",
    "tests/data",
)
# Generated, or tables with a row for each entry.
TABLES = (
    "src/barnabas/protocol/messages",
    "src/barnabas/protocol/records",
    "src/barnabas/config/tables",
    "src/barnabas/base/errors.py",
    "tools/message_notes.py",
)
# Compiled loops: a call for each part would cost more than the part does.
LOOPS = {
    "src/barnabas/batch/engine/columns.py: decode_columns",
    "src/barnabas/batch/engine/consume.py: decode_consumed",
}


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((PROJECT / folder).rglob("*.py"))]


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def folders() -> list[Path]:
    return sorted({path.parent for path in python_files("src", "tests")})


@pytest.mark.parametrize("folder", folders(), ids=name_of)
def test_a_folder_fits_on_a_screen(folder: Path) -> None:
    if name_of(folder).startswith(ONE_FILE_EACH):
        return
    files = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES, f"{name_of(folder)} has {len(files)} files"


def test_no_file_is_too_long() -> None:
    long = {
        name_of(path): size
        for path in python_files("src", "tools", "bench", "examples")
        if not name_of(path).startswith(TABLES)
        and (size := len(path.read_text("utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}


def test_no_function_is_too_long_but_for_the_compiled_loops() -> None:
    """Those on the list must be long, too: one that has become short leaves it."""
    assert long_functions() == LOOPS


def long_functions() -> set[str]:
    return {
        f"{name_of(path)}: {node.name}"
        for path in python_files("src")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(node) > MOST_FUNCTION_LINES
    }


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From `def` to the end, without the docstring."""
    assert function.end_lineno is not None
    size = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        first = function.body[0]
        assert first.end_lineno is not None
        size -= first.end_lineno - first.lineno + 1
    return size
