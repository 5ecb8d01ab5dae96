"""An environment in which there is no Java."""

from __future__ import annotations

import os
from pathlib import Path


def without_java(folder: Path) -> dict[str, str]:
    """All programs of the path but Java, and a cache of its own."""
    tools = folder / "bin"
    tools.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if not program.name.startswith("java") and not os.path.lexists(tools / program.name):
                (tools / program.name).symlink_to(program)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return environment | {"PATH": str(tools), "XDG_CACHE_HOME": str(folder / "cache")}
