"""Copies of the tree that may be broken, one for each process that runs tests."""

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
# What the build of the engine leaves, and Git does not know.
BUILT = ("*.so", "_build.json")
# Carried by every process that a trial starts, so that those left behind can be told from all others.
TRIAL_VARIABLE = "BARNABAS_MUTANTS_TRIAL"


def tree_files(project: Path) -> list[str]:
    """The files of the project as they are now: those of Git, new ones, and the compiled engine."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=project, capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name and (project / name).is_file()]
    built = [path for pattern in BUILT for path in (project / ENGINE).glob(pattern)]
    return sorted({*names, *(path.relative_to(project).as_posix() for path in built)})


def tree_hash(project: Path) -> str:
    """Names the sources and the tests as they are now."""
    digest = sha256()
    for name in tree_files(project):
        if name.startswith(("src/", "tests/")):
            digest.update(name.encode() + b"\0" + sha256((project / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


class Scratch:
    """A copy of the tree with a virtual environment that is the project's own."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        shutil.rmtree(folder, ignore_errors=True)
        for name in tree_files(project):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, folder / name)
        (folder / ".venv").symlink_to(project / ".venv")
        # By content, as a mutant may have the size and the second of the file that it replaces.
        compile_all = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src", "tests")
        subprocess.run([sys.executable, *compile_all], cwd=folder, check=True)

    def environment(self, **more: str) -> dict[str, str]:
        """In which `import barnabas` finds the copy, and which processes inherit."""
        return {
            **os.environ,
            "PYTHONPATH": f"{self.folder / 'src'}{os.pathsep}{self.folder}",
            "PYTHONDONTWRITEBYTECODE": "1",
            TRIAL_VARIABLE: str(self.folder),
            **more,
        }

    @contextmanager
    def broken_by(self, mutant: Mutant) -> Iterator[None]:
        """With the mutant in it for a while; the engine is not compiled if it is in there."""
        path = self.folder / mutant.path
        whole = path.read_text("utf-8")
        hidden = self._hide_engine() if mutant.path.startswith(ENGINE) else []
        path.write_text(mutant.apply(whole), "utf-8")
        try:
            yield
        finally:
            path.write_text(whole, "utf-8")
            for each in hidden:
                each.with_name(each.name + ".hidden").rename(each)

    def _hide_engine(self) -> list[Path]:
        built = [path for pattern in BUILT for path in (self.folder / ENGINE).glob(pattern)]
        for path in built:
            path.rename(path.with_name(path.name + ".hidden"))
        return built


def end_leftovers(folder: Path) -> None:
    """End the processes that a trial in this copy has left: brokers whose test was stopped."""
    marker = f"{TRIAL_VARIABLE}={folder}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), 9)
        except OSError:
            continue
