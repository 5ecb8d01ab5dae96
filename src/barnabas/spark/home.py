"""SPARK_HOME for sessions on one machine: pip's PySpark, without its zipped copy of its own Python code.

Spark puts SPARK_HOME/python/lib/pyspark.zip in front of the import path of its Python processes, for clusters
whose machines have no PySpark.  Python caches no bytecode of modules in a zip, so each such process compiles
all of it again.  On one machine PySpark is installed, and without the zip a streaming query starts half a
second earlier.
"""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "SPARK_HOME"
# What Spark needs in its home; `python` is left out.
_LINKED = ("bin", "sbin", "jars", "conf")


def choose(cache: Path, is_local: bool) -> None:
    """Set SPARK_HOME for the next session, unless the user has set it."""
    given = os.environ.get(VARIABLE)
    ours = cache / "spark"
    if given is not None and not Path(given).is_relative_to(ours):
        return
    os.environ.pop(VARIABLE, None)
    # Another Python may have no PySpark except the one in the zip.
    if is_local and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable:
        home = _linked_home(ours)
        if home is not None:
            os.environ[VARIABLE] = str(home)


def _linked_home(folder: Path) -> Path | None:
    """Return a folder with links to the PySpark of this Python; None if it cannot be created, as it is
    optional."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations or sys.platform == "win32":
        return None
    installed = Path(spec.submodule_search_locations[0])
    if not (installed / "python" / "lib").is_dir():
        return None
    # One per environment.
    home = folder / hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in _LINKED:
            if (installed / name).exists() and not (home / name).is_symlink():
                _link(home / name, installed / name)
    except OSError:
        return None
    return home


def _link(link: Path, target: Path) -> None:
    try:
        link.symlink_to(target)
    except FileExistsError:
        # Another session has just created it.
        if not link.exists():
            raise
