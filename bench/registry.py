"""The registry of benchmark rows, measured by alternating rounds.

A row gives contenders: each is called once a round and returns one value in the row's unit, or several by
name when rows share a measurement.  Contenders take turns within a round, so that a busy machine slows all
of them alike, and ratios are taken within the round.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, TypeVar

OURS = "barnabas"
DEFAULT_ROUNDS = 5

T = TypeVar("T")
Contender = Callable[[], float | Mapping[str, float]]


class House:
    """What lives as long as a whole run: folders, and whatever several rows share, such as servers."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self._shared: dict[Hashable, Any] = {}

    def __enter__(self) -> House:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def folder(self, stack: ExitStack | None = None) -> Path:
        """A new one that goes with the house, or with the given stack."""
        path = Path(mkdtemp(prefix="barnabas-bench-"))
        (stack or self.stack).callback(shutil.rmtree, path, ignore_errors=True)
        return path

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key, or is made now."""
        if key not in self._shared:
            self._shared[key] = make()
        found: T = self._shared[key]
        return found


@dataclass(slots=True)
class Workbench:
    """What a row may use: a scratch folder, a stack for what must be closed after it, the house."""

    scratch: Path
    stack: ExitStack
    house: House


RowFunction = Callable[[Workbench], Mapping[str, Contender]]


@dataclass(frozen=True, slots=True)
class Row:
    """Goal and floor are ratios of the first contender to the one named `against`."""

    name: str
    title: str
    unit: str
    contenders: RowFunction
    higher_is_better: bool = True
    goal: float | None = None
    floor: float | None = None
    against: str | None = None
    rounds: int = DEFAULT_ROUNDS
    # What the first contender has to reach by itself, in the row's unit.
    own_goal: float | None = None
    own_floor: float | None = None
    # Which of the values that the contenders return, if they return several.
    value: str | None = None
    # An unmeasured round comes first.
    warm_up: bool = True
    # Left out of a run that names no rows: it takes more than this project and Apache Kafka, or long.
    only_by_name: bool = False
    # Said where the goal is missed.
    why: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """All values of one row; the first contender is ours, the others are what it is compared with."""

    row: Row
    values: dict[str, list[float]] = field(default_factory=dict)

    def median(self, contender: str) -> float:
        return statistics.median(self.values[contender])

    def quartiles(self, contender: str) -> tuple[float, float]:
        return quartiles(self.values[contender])

    def ratios(self, contender: str) -> list[float]:
        """Ours divided by theirs, round by round."""
        ours = next(iter(self.values))
        pairs = zip(self.values[ours], self.values[contender], strict=True)
        return [_divided(mine, theirs) for mine, theirs in pairs]

    def ratio(self, contender: str) -> float:
        return statistics.median(self.ratios(contender))

    def ratio_quartiles(self, contender: str) -> tuple[float, float]:
        return quartiles(self.ratios(contender))


def _divided(mine: float, theirs: float) -> float:
    """Two that are nothing are equal: a processor that was idle for both, say."""
    if theirs:
        return mine / theirs
    return float("inf") if mine else 1.0


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


ROWS: dict[str, Row] = {}


def row(name: str, title: str, **options: Any) -> Callable[[RowFunction], RowFunction]:
    """Register a row; see `Row` for the options.  Rows over one function are measured together."""

    def register(contenders: RowFunction) -> RowFunction:
        if name in ROWS:
            raise ValueError(f"two rows are called {name!r}")
        ROWS[name] = Row(name, title, contenders=contenders, **options)
        return contenders

    return register


def load_rows() -> dict[str, Row]:
    """Import every file of `rows/`, which registers its rows."""
    package = importlib.import_module("bench.rows")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        importlib.import_module(f"bench.rows.{module.name}")
    return ROWS


def families(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that are measured together, in the order of the first of each."""
    found: dict[RowFunction, list[Row]] = {}
    for one in rows:
        found.setdefault(one.contenders, []).append(one)
    return list(found.values())


def measure(family: Sequence[Row], house: House, progress: Callable[[str], None]) -> list[Result]:
    """One unmeasured round to warm up, then alternating rounds; a result for each row."""
    results = [Result(one) for one in family]
    first = family[0]
    with ExitStack() as stack:
        contenders = first.contenders(Workbench(house.folder(stack), stack, house))
        if first.warm_up:
            for contender in contenders.values():
                contender()
        for number in range(first.rounds):
            progress(f"{first.name}: round {number + 1} of {first.rounds}")
            for name, contender in contenders.items():
                found = contender()
                for result in results:
                    result.values.setdefault(name, []).append(_pick(result.row, found))
    return results


def _pick(of: Row, found: float | Mapping[str, float]) -> float:
    if isinstance(found, Mapping):
        assert of.value is not None, f"{of.name} does not say which value it wants"
        return found[of.value]
    return found
