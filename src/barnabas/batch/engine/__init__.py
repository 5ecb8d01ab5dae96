"""The engine: loops over records and bytes, written for mypyc.

Contains strictly typed modules with native integers, and the rule by which they are imported: compiled if a
build left compiled modules of exactly these sources for this Python, as plain Python otherwise.  No IO here,
and nothing dynamic in the modules themselves.

`BARNABAS_ENGINE=interpreted` in the environment selects plain Python.  setup.py compiles, and records in
`_build.json` what it compiled.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ENGINE_VARIABLE = "BARNABAS_ENGINE"
BUILD_FILE = "_build.json"
COMPILED = "compiled"
INTERPRETED = "interpreted"
STALE = "stale"

_FOLDER = Path(__file__).parent


class EngineState(NamedTuple):
    """The engine in use: `compiled`, `interpreted`, or `stale` (interpreted, until it is built again)."""

    state: str
    reason: str


def source_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of every module's source, by module name.  setup.py writes it, the import compares it."""
    sources = sorted(path for path in folder.glob("*.py") if path.stem != "__init__")
    return {path.stem: sha256(path.read_bytes()).hexdigest() for path in sources}


def select_engine(folder: Path, requested: str | None, suffix: str = EXTENSION_SUFFIXES[0]) -> EngineState:
    """The engine that the modules in `folder` provide to a Python whose compiled modules end with
    `suffix`."""
    if requested == INTERPRETED:
        return EngineState(INTERPRETED, f"{ENGINE_VARIABLE}={INTERPRETED} is set")
    hashes = source_hashes(folder)
    present = [name for name in hashes if (folder / f"{name}{suffix}").exists()]
    if not present:
        return EngineState(INTERPRETED, f"no modules compiled for this Python (*{suffix})")
    try:
        built = json.loads((folder / BUILD_FILE).read_text("utf-8"))[suffix]
    except (OSError, ValueError, LookupError, TypeError):
        return EngineState(STALE, f"compiled modules without the {BUILD_FILE} of their build: build again")
    changed = [name for name in hashes if built.get(name) != hashes[name] or name not in present]
    if changed or len(built) != len(hashes):
        names = ", ".join(changed) or "the list of modules"
        return EngineState(STALE, f"{names} changed after the build: build again (make setup)")
    return EngineState(COMPILED, f"compiled for this Python (*{suffix})")


class SourceFinder:
    """Finds the source modules of this package even if compiled ones are beside them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        source = _FOLDER / f"{module}.py"
        if package != __name__ or not source.exists():
            return None
        return spec_from_file_location(name, source)


_STATE = select_engine(_FOLDER, os.environ.get(ENGINE_VARIABLE))
if _STATE.state != COMPILED:
    sys.meta_path.insert(0, SourceFinder)


def engine_state() -> EngineState:
    """The engine that this process uses, and why."""
    return _STATE
