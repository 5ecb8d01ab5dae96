"""The last step of `make setup`: build the engine if necessary, and report in one line which one is in use.

pip hides the output of a build, and make's stamp does not notice a compiler that was installed later or
compiled modules that do not match their sources; so the engine itself is checked each time.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from barnabas.batch.engine import INTERPRETED, STALE, EngineState, select_engine
from barnabas.cli.doctor.command import engine_finding

PROJECT = Path(__file__).resolve().parents[1]
ENGINE = PROJECT / "src" / "barnabas" / "batch" / "engine"
COMPILE_VARIABLE = "BARNABAS_COMPILE"
BUILD = (sys.executable, "-W", "ignore", "setup.py", "--quiet", "build_ext", "--inplace")


def can_compile() -> bool:
    """Whether a compiler and Python's headers exist; setup.py tries them, which takes longer."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    return shutil.which(command[0]) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def needs_build(state: EngineState) -> bool:
    """Stale modules are always replaced: by plain Python if they cannot be compiled again."""
    if os.environ.get(COMPILE_VARIABLE) == "0":
        return state.state == STALE
    return state.state == STALE or (state.state == INTERPRETED and can_compile())


def main() -> int:
    state = select_engine(ENGINE, None)
    if needs_build(state):
        built = subprocess.run(BUILD, cwd=PROJECT, stdout=subprocess.DEVNULL, check=False)
        if built.returncode:
            return built.returncode
        state = select_engine(ENGINE, None)
    finding = engine_finding(state)
    print(f"engine {finding.found}" + (f" -> {finding.advice}" if finding.advice else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
