"""The registry of benchmark rows: one file a row under `rows/`, measured by alternating rounds.

A row gives contenders: each is called once a round and returns one value in the row's unit.  Contenders take
turns within a round, so that a busy machine slows all of them alike, and ratios are taken within the round.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import statistics
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

OURS = "barnabas"
DEFAULT_ROUNDS = 5

Contender = Callable[[], float]


@dataclass(slots=True)
class Workbench:
    """What a row may use: a scratch folder, and a stack for what must be closed or stopped after it."""

    scratch: Path
    stack: ExitStack


RowFunction = Callable[[Workbench], Mapping[str, Contender]]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    unit: str
    higher_is_better: bool
    goal: float | None
    floor: float | None
    against: str | None
    rounds: int
    contenders: RowFunction


@dataclass(frozen=True, slots=True)
class Result:
    """All values of one row; the first contender is ours, the others are what it is compared with."""

    row: Row
    values: dict[str, list[float]] = field(default_factory=dict)

    def median(self, contender: str) -> float:
        return statistics.median(self.values[contender])

    def quartiles(self, contender: str) -> tuple[float, float]:
        values = self.values[contender]
        if len(values) < 2:
            return values[0], values[0]
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return low, high

    def ratio(self, contender: str) -> float:
        """Ours divided by theirs, the median over rounds."""
        ours = next(iter(self.values))
        pairs = zip(self.values[ours], self.values[contender], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


ROWS: dict[str, Row] = {}


def row(
    name: str,
    title: str,
    *,
    unit: str,
    higher_is_better: bool = True,
    goal: float | None = None,
    floor: float | None = None,
    against: str | None = None,
    rounds: int = DEFAULT_ROUNDS,
) -> Callable[
    [Callable[[Workbench], Mapping[str, Contender]]], Callable[[Workbench], Mapping[str, Contender]]
]:
    """Register a row.  Goal and floor are ratios of the first contender to the one named `against`."""

    def register(contenders: RowFunction) -> RowFunction:
        if name in ROWS:
            raise ValueError(f"two rows are called {name!r}")
        ROWS[name] = Row(name, title, unit, higher_is_better, goal, floor, against, rounds, contenders)
        return contenders

    return register


def load_rows() -> dict[str, Row]:
    """Import every file of `rows/`, which registers its row."""
    package = importlib.import_module("bench.rows")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"bench.rows.{module.name}")
    return ROWS


def measure(of: Row, progress: Callable[[str], None]) -> Result:
    """One unmeasured round to warm up, then alternating rounds."""
    result = Result(of)
    with ExitStack() as stack:
        scratch = Path(mkdtemp(prefix="barnabas-bench-"))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        contenders = of.contenders(Workbench(scratch, stack))
        for contender in contenders.values():
            contender()
        for number in range(of.rounds):
            progress(f"{of.name}: round {number + 1} of {of.rounds}")
            for name, contender in contenders.items():
                result.values.setdefault(name, []).append(contender())
    return result
