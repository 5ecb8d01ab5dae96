"""docs/ARCHITECTURE.md is a true map: it lists every package, and what it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "src" / "barnabas"
PAGE = (PROJECT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
# `runtime/loop/reactor.py` and `runtime/loop/`; at the top also of tests and tools.
NAMED_PATH = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`")
# `broker/network/dispatch.Dispatch.serve`, one step of a walk.
STEP = re.compile(r"`((?:[a-z_]+/)+[a-z_]+)\.(?!py`)([A-Za-z_]\w*(?:\.\w+)?)`")
OUTSIDE = ("tests/", "tools/", "bench/", "examples/", "src/")


def packages() -> list[str]:
    return sorted(f"{init.parent.relative_to(SOURCES)}/" for init in SOURCES.rglob("*/__init__.py"))


@cache
def functions_of(module: str) -> frozenset[str]:
    """Functions by name, methods as Class.method, in a module of ours."""
    path = SOURCES / f"{module}.py"
    if not path.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (
                member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            names |= {f"{node.name}.{member.name}" for member in methods}
    return frozenset(names)


@pytest.mark.parametrize("package", packages())
def test_every_package_has_a_row(package: str) -> None:
    assert f"| `{package}` |" in PAGE


@pytest.mark.parametrize("path", sorted(set(NAMED_PATH.findall(PAGE))))
def test_every_path_named_exists(path: str) -> None:
    root = PROJECT if path.startswith(OUTSIDE) else SOURCES
    assert (root / path).exists()


@pytest.mark.parametrize(("module", "function"), sorted(set(STEP.findall(PAGE))))
def test_every_function_of_a_walk_exists(module: str, function: str) -> None:
    assert function in functions_of(module)
