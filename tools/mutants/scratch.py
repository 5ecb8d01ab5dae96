"""Copies of the tree that are mutated, one for each process that runs tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tools.mutants.source import Mutant

ENGINE = "src/barnabas/batch/engine/"
# Build products of the engine, which are not in Git.
BUILT = ("*.so", "_build.json")
# Set in every process that a trial starts, so that leftover processes can be found.
TRIAL_VARIABLE = "BARNABAS_MUTANTS_TRIAL"


def tree_files(project: Path) -> list[str]:
    """The current files of the project: those in Git, new ones, and the compiled engine."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=project, capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name and (project / name).is_file()]
    built = [path for pattern in BUILT for path in (project / ENGINE).glob(pattern)]
    return sorted({*names, *(path.relative_to(project).as_posix() for path in built)})


def tree_hash(project: Path) -> str:
    """A hash of the current sources and tests."""
    digest = sha256()
    for name in tree_files(project):
        if name.startswith(("src/", "tests/")):
            digest.update(name.encode() + b"\0" + sha256((project / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


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
        """Contains the mutant in this context; the engine is interpreted if the mutant is in it."""
        path = self.folder / mutant.path
        original = path.read_text("utf-8")
        hidden = self._hide_engine() if mutant.path.startswith(ENGINE) else []
        path.write_text(mutant.apply(original), "utf-8")
        try:
            yield
        finally:
            path.write_text(original, "utf-8")
            for each in hidden:
                each.with_name(each.name + ".hidden").rename(each)

    def _hide_engine(self) -> list[Path]:
        built = [path for pattern in BUILT for path in (self.folder / ENGINE).glob(pattern)]
        for path in built:
            path.rename(path.with_name(path.name + ".hidden"))
        return built


def end_leftovers(folder: Path) -> None:
    """Ends processes that a trial in this copy left behind, such as brokers of interrupted tests."""
    marker = f"{TRIAL_VARIABLE}={folder}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), 9)
        except OSError:
            continue
