"""The simulation alone runs nearly every line of `raft`: what it does not reach, it cannot find a bug in.

    python -m tests.testing.test_raft_lines [seeds]

prints the lines that it did not run.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import coverage

ROOT = Path(__file__).parents[2]
SEEDS = 40
# Of the scenario with real files, which reads and writes snapshots.
SEEDS_WITH_FILES = 2
# What is left: damaged files, checks of requests that no node sends, and `__hash__` and the like.
LEAST_PERCENT = 95


def test_seeds_run_nearly_all_lines_of_raft() -> None:
    # M-C
    command = [sys.executable, "-m", "tests.testing.test_raft_lines", str(SEEDS)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    percent = float(ended.stdout.splitlines()[-1].split()[0])
    assert percent >= LEAST_PERCENT, ended.stdout


def _measure(seeds: int) -> str:
    """The table of missed lines, and in its last line the percentage of those that were run."""
    measured = coverage.Coverage(source_pkgs=["barnabas.raft"], data_file=None, config_file=False)
    measured.start()
    from barnabas.testing.simulation.registry import SCENARIOS, load_all
    from barnabas.testing.simulation.runner import play_or_raise

    load_all()
    for scenario, count in (("raft-quorum", seeds), ("metadata-quorum", SEEDS_WITH_FILES)):
        for seed in range(count):
            play_or_raise(SCENARIOS[scenario], seed)
    measured.stop()
    table = io.StringIO()
    percent = measured.report(file=table, show_missing=True, skip_covered=True)
    return f"{table.getvalue()}\n{percent:.1f} % of the lines"


if __name__ == "__main__":
    sys.stdout.write(_measure(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS) + "\n")
