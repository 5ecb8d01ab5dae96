"""Which tests may run a source file: those that import it, and those of its package.

Needs no traced run of all tests, which takes as long as `make test` and more.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

from tools.mutants.scratch import Scratch, is_test_module, tree_files
from tools.mutants.source import Mutant
from tools.mutants.tracing import module_of


@dataclass(slots=True)
class Imports:
    """The tests, and what each file of src and tests imports, as paths of files."""

    tests: list[str]
    imported: dict[str, frozenset[str]]
    texts: dict[str, str] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)

    def covering(self, mutant: Mutant) -> set[str]:
        """The tests in modules that import the file, and those in its mirror."""
        source = PurePosixPath(mutant.path)
        mirror = str(PurePosixPath("tests", *source.parts[2:-1], f"test_{source.name}"))
        return {
            test
            for test in self.tests
            if (module := module_of(test)) == mirror or mutant.path in self.imported.get(module, ())
        }

    def near(self, mutant: Mutant) -> set[str]:
        """The tests in the folder of the package."""
        package = "/".join(["tests", *mutant.path.split("/")[2:3], ""])
        return {test for test in self.tests if test.startswith(package)}

    def mentions(self, module: str, mutant: Mutant) -> int:
        """How often a module of tests has the words of the source's path: the subject of most tests."""
        text = self.texts.get(module, "")
        return sum(text.count(word) for word in words_of(mutant.path))

    def seconds_of(self) -> dict[str, float]:
        """Durations are unknown."""
        return {}


def words_of(path: str) -> set[str]:
    """The last two names of a path below the package, as they are and as options and titles have them."""
    names = PurePosixPath(path).with_suffix("").parts[3:][-2:]
    return {form for name in names for form in (name, name.replace("_", "-"), name.replace("_", " "))}


def read_imports(project: Path, scratch: Scratch, kept: Path) -> Imports:
    """The tests of this tree, collected once, and its imports."""
    if not kept.exists():
        command = [sys.executable, "-m", "pytest", "--collect-only"]
        done = subprocess.run(
            command, cwd=scratch.folder, env=scratch.environment(), capture_output=True, text=True, check=True
        )
        kept.write_text(json.dumps([line for line in done.stdout.splitlines() if "::" in line]), "utf-8")
    files = [name for name in tree_files(project) if name.startswith(("src/", "tests/"))]
    sources = {name: (project / name).read_text("utf-8") for name in files if name.endswith(".py")}
    imported = {name: frozenset(imports_of(text, set(sources))) for name, text in sources.items()}
    texts = {name: text for name, text in sources.items() if is_test_module(name)}
    return Imports(json.loads(kept.read_text("utf-8")), _with_helpers(imported), texts)


def imports_of(text: str, files: set[str]) -> Iterator[str]:
    """The files of the tree that a text imports; importing a name of a package means both."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                dotted = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                dotted = [module, *(f"{module}.{alias.name}" for alias in names)]
            case _:
                continue
        for name in dotted:
            path = name.replace(".", "/")
            for root in ("src/", ""):
                yield from files & {f"{root}{path}.py", f"{root}{path}/__init__.py"}


def _with_helpers(imported: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """A module of tests also imports what its helpers and the conftest of its folders import."""

    @cache
    def by_helper(name: str) -> frozenset[str]:
        helpers = {each for each in imported[name] if each.startswith("tests/") and not is_test_module(each)}
        return imported[name].union(*(imported[helper] for helper in helpers))

    def conftests(name: str) -> Iterator[str]:
        # The one of all tests is no hint.
        for folder in PurePosixPath(name).parents[:-2]:
            if (found := str(folder / "conftest.py")) in imported:
                yield found

    return {
        name: by_helper(name).union(*(by_helper(found) for found in conftests(name)))
        if is_test_module(name)
        else known
        for name, known in imported.items()
    }
