"""The seeds of every scenario that `make test` runs; the campaigns of `make sim` run more.

They come in chunks, one test each, so that the processes of pytest-xdist share them.
"""

from __future__ import annotations

import os
import subprocess
import sys

SEEDS = 300
_PROGRAM = """
import sys
from barnabas.testing.simulation.registry import SCENARIOS, load_all
from barnabas.testing.simulation.runner import play
load_all()
print(play(SCENARIOS[sys.argv[1]], int(sys.argv[2])).digest)
"""


def chunks(size: int, seeds: int = SEEDS) -> list[range]:
    """All seeds, `size` at a time."""
    return [range(first, min(first + size, seeds)) for first in range(0, seeds, size)]


def chunk_name(seeds: range) -> str:
    """The name of a chunk's test."""
    return f"{seeds.start}-{seeds.stop - 1}"


def digest_in_another_process(scenario: str, seed: int) -> str:
    """The digest of a seed's trace in a process that hashes differently."""
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, scenario, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()
