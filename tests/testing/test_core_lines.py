"""The simulation alone runs most lines of `replica`, `controller` and `coordinator`, which decide without IO.

    python -m tests.testing.test_core_lines [times]

prints the lines that it did not run, with so many times the seeds, and the percentage of each package.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("barnabas.replica", "barnabas.controller", "barnabas.coordinator")
# Scenarios with whole nodes take seconds a seed.
SEEDS = {
    "coordinator-groups": 200,
    "coordinator-transactions": 150,
    "metadata-administration": 80,
    "metadata-quorum": 4,
    "replicas": 60,
    "replication-groups": 6,
    "replication-racks": 6,
    "replication-transactions": 6,
    "replication-unclean": 6,
    "replication": 6,
    "zookeeper-controller": 30,
}
# What is left: requests that no simulated client sends (listings, descriptions), damaged records, limits that
# no seed reaches, and `__repr__` and the like.
LEAST_PERCENT = 90


@pytest.mark.slow
def test_seeds_run_most_lines_of_the_pure_cores() -> None:
    # M-D
    command = [sys.executable, "-m", "tests.testing.test_core_lines"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    percentages = {line.split()[-1]: float(line.split()[0]) for line in ended.stdout.splitlines()[-4:-1]}
    assert percentages.keys() == set(PACKAGES), ended.stdout
    assert min(percentages.values()) >= LEAST_PERCENT, ended.stdout


def _measure(times: int) -> Iterator[str]:
    """The table of missed lines, and then the percentages of those that were run, of each package and of all."""
    measured = coverage.Coverage(source_pkgs=list(PACKAGES), data_file=None, config_file=False)
    measured.start()
    from barnabas.testing.simulation.registry import SCENARIOS, load_all
    from barnabas.testing.simulation.runner import play_or_raise

    load_all()
    for scenario, seeds in SEEDS.items():
        for seed in range(seeds * times):
            play_or_raise(SCENARIOS[scenario], seed)
    measured.stop()
    table = io.StringIO()
    percent = measured.report(file=table, show_missing=True, skip_covered=True)
    yield table.getvalue()
    for package in PACKAGES:
        files = [f"*/{package.replace('.', '/')}/*"]
        yield f"{measured.report(include=files, file=io.StringIO()):.1f} % of the lines of {package}"
    yield f"{percent:.1f} % of the lines"


if __name__ == "__main__":
    for line in _measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        sys.stdout.write(line + "\n")
