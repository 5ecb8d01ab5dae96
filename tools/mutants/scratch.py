"""Copies of the tree that are mutated, one for each process that runs tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath

from tools.mutants.source import Mutant

ENGINE = "src/barnabas/batch/engine/"
# Build products of the engine, which are not in Git.
BUILT = ("*.so", "_build.json")
# The key of `module_hashes` for what all tests share.
SHARED = ""
HASH_DIGITS = 16
# Set in every process that a trial starts, so that leftover processes can be found.
TRIAL_VARIABLE = "BARNABAS_MUTANTS_TRIAL"


def tree_files(project: Path) -> list[str]:
    """The current files of the project: those in Git, new ones, and the compiled engine."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=project, capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name and (project / name).is_file()]
    built = [path for pattern in BUILT for path in (project / ENGINE).glob(pattern)]
    return sorted({*names, *(path.relative_to(project).as_posix() for path in built)})


def is_test_module(name: str) -> bool:
    """Whether a file contains only tests, so that changing it affects no other test."""
    return name.startswith("tests/") and PurePosixPath(name).match("test_*.py")


def module_hashes(project: Path) -> dict[str, str]:
    """A hash of each module of tests; that of `SHARED` is of what they share: sources, fixtures, data."""
    hashes: dict[str, str] = {}
    shared = sha256()
    for name in tree_files(project):
        digest = sha256((project / name).read_bytes())
        if is_test_module(name):
            hashes[name] = digest.hexdigest()[:HASH_DIGITS]
        elif name.startswith(("src/", "tests/")):
            shared.update(name.encode() + b"\0" + digest.digest())
    return {SHARED: shared.hexdigest()[:HASH_DIGITS], **hashes}


def tree_hash(project: Path) -> str:
    """A hash of the current sources and tests."""
    return sha256(repr(sorted(module_hashes(project).items())).encode()).hexdigest()[:HASH_DIGITS]


class Scratch:
    """A copy of the tree that uses the project's virtual environment."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        shutil.rmtree(folder, ignore_errors=True)
        for name in tree_files(project):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, folder / name)
        (folder / ".venv").symlink_to(project / ".venv")
        # By content: a mutant may have the size and modification time of the file it replaces.
        compile_all = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src", "tests")
        subprocess.run([sys.executable, *compile_all], cwd=folder, check=True)

    def environment(self, **variables: str) -> dict[str, str]:
        """The environment in which `import barnabas` finds the copy."""
        return {
            **os.environ,
            "PYTHONPATH": f"{self.folder / 'src'}{os.pathsep}{self.folder}",
            "PYTHONDONTWRITEBYTECODE": "1",
            TRIAL_VARIABLE: str(self.folder),
            **variables,
        }

    @contextmanager
    def mutated_by(self, mutant: Mutant) -> Iterator[None]:
        """Contains the mutant in this context; the engine is interpreted if its module is compiled."""
        path = self.folder / mutant.path
        original = path.read_text("utf-8")
        with self.like_with(mutant):
            path.write_text(mutant.apply(original), "utf-8")
            try:
                yield
            finally:
                path.write_text(original, "utf-8")

    @contextmanager
    def like_with(self, mutant: Mutant) -> Iterator[None]:
        """The copy as it is with the mutant, but without it: some tests need the compiled engine."""
        source = self.folder / mutant.path
        is_hidden = mutant.path.startswith(ENGINE) and any(source.parent.glob(f"{source.stem}.*.so"))
        built = [path for pattern in BUILT for path in (self.folder / ENGINE).glob(pattern) if is_hidden]
        for path in built:
            path.rename(path.with_name(path.name + ".hidden"))
        try:
            yield
        finally:
            for path in built:
                path.with_name(path.name + ".hidden").rename(path)


def end_leftovers(folder: Path) -> None:
    """Ends processes that a trial in this copy left behind, such as brokers of interrupted tests."""
    marker = f"{TRIAL_VARIABLE}={folder}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), 9)
        except OSError:
            continue
