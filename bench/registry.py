"""The registry of benchmark rows, measured in alternating rounds.

A row provides contenders: each is called once per round and returns one value in the row's unit, or several
by name if rows share a measurement.  Contenders take turns within a round, so that a busy machine slows all
of them equally, and ratios are computed within the round.
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


class RunContext:
    """Resources of a whole run: folders, and objects that several rows share, such as servers."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self._shared: dict[Hashable, Any] = {}

    def __enter__(self) -> RunContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def folder(self, stack: ExitStack | None = None) -> Path:
        """A new folder, deleted with the run or the given stack."""
        path = Path(mkdtemp(prefix="barnabas-bench-"))
        (stack or self.stack).callback(shutil.rmtree, path, ignore_errors=True)
        return path

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """The object with this key, created if necessary."""
        if key not in self._shared:
            self._shared[key] = make()
        value: T = self._shared[key]
        return value


@dataclass(slots=True)
class Workbench:
    """The resources of a row: a scratch folder, a stack for cleanup, and the context of the run."""

    scratch: Path
    stack: ExitStack
    context: RunContext


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
    # Added to the other's median before goal and floor are compared, in the row's unit.
    allowance: float = 0
    rounds: int = DEFAULT_ROUNDS
    # Absolute goal and floor of the first contender, in the row's unit.
    own_goal: float | None = None
    own_floor: float | None = None
    # The name of the value, if the contenders return several.
    value: str | None = None
    # Whether an unmeasured round comes first.
    warm_up: bool = True
    # Only run if named: it takes long, or needs more than this project and Apache Kafka.
    only_by_name: bool = False
    # Shown if the goal is missed.
    why: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """All values of one row; the first contender is barnabas, which is compared with the others."""

    row: Row
    values: dict[str, list[float]] = field(default_factory=dict)

    def median(self, contender: str) -> float:
        return statistics.median(self.values[contender])

    def quartiles(self, contender: str) -> tuple[float, float]:
        return quartiles(self.values[contender])

    def ratios(self, contender: str) -> list[float]:
        """The first contender divided by this one, round by round."""
        ours = next(iter(self.values))
        pairs = zip(self.values[ours], self.values[contender], strict=True)
        return [_divided(mine, theirs) for mine, theirs in pairs]

    def ratio(self, contender: str) -> float:
        return statistics.median(self.ratios(contender))

    def ratio_quartiles(self, contender: str) -> tuple[float, float]:
        return quartiles(self.ratios(contender))


def _divided(mine: float, theirs: float) -> float:
    """0 / 0 is 1: for example an idle CPU for both."""
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
    """Registers a row; see `Row` for the options.  Rows with the same function are measured together."""

    def register(contenders: RowFunction) -> RowFunction:
        if name in ROWS:
            raise ValueError(f"two rows are called {name!r}")
        ROWS[name] = Row(name, title, contenders=contenders, **options)
        return contenders

    return register


def load_rows() -> dict[str, Row]:
    """Imports every module of `rows/`, which registers its rows."""
    package = importlib.import_module("bench.rows")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        importlib.import_module(f"bench.rows.{module.name}")
    return ROWS


def families(rows: Sequence[Row]) -> list[list[Row]]:
    """Groups of rows that are measured together, in order of their first row."""
    grouped: dict[RowFunction, list[Row]] = {}
    for member in rows:
        grouped.setdefault(member.contenders, []).append(member)
    return list(grouped.values())


def measure(family: Sequence[Row], context: RunContext, progress: Callable[[str], None]) -> list[Result]:
    """Runs an unmeasured warm-up round, then alternating rounds; returns a result for each row."""
    results = [Result(member) for member in family]
    first = family[0]
    with ExitStack() as stack:
        contenders = first.contenders(Workbench(context.folder(stack), stack, context))
        if first.warm_up:
            for contender in contenders.values():
                contender()
        for number in range(first.rounds):
            progress(f"{first.name}: round {number + 1} of {first.rounds}")
            for name, contender in contenders.items():
                measured = contender()
                for result in results:
                    result.values.setdefault(name, []).append(_pick(result.row, measured))
    return results


def _pick(of: Row, measured: float | Mapping[str, float]) -> float:
    if isinstance(measured, Mapping):
        assert of.value is not None, f"{of.name} does not name its value"
        return measured[of.value]
    return measured
