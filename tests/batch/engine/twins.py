"""The engine twice: as this process runs it, and its sources as plain Python."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from barnabas.batch import engine

FOLDER = Path(engine.__file__).parent
TWIN = "plain_engine"
# In the order in which they import each other.
MODULES = (
    "faults",
    "varints",
    "walk",
    "decode",
    "encode",
    "gather",
    "murmur",
    "arrow_rows",
    "consume",
    "columns",
    "binary_column",
    "offset_map",
    "compaction_write",
    "compaction",
)


def running(name: str) -> ModuleType:
    """The module that this process runs, compiled or not."""
    return importlib.import_module(f"{engine.__name__}.{name}")


def plain(name: str) -> ModuleType:
    """The module as plain Python, which imports only plain modules itself."""
    if TWIN not in sys.modules:
        package = ModuleType(TWIN)
        package.__path__ = []
        sys.modules[TWIN] = package
        for each in MODULES:
            path = FOLDER / f"{each}.py"
            source = path.read_text("utf-8").replace(f"{engine.__name__}.", f"{TWIN}.")
            module = ModuleType(f"{TWIN}.{each}")
            sys.modules[module.__name__] = module
            exec(compile(source, str(path), "exec"), module.__dict__)
    return sys.modules[f"{TWIN}.{name}"]
