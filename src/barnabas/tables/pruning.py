"""What of a topic a query can want: bounds of offsets, times and partitions, from DuckDB's plan.

DuckDB filters every row itself; bounds only spare reading, so that a condition that is not understood costs
time and nothing else.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

_COMPARISON = re.compile(r"\(?\"?(offset|partition|timestamp)\"? (>=|<=|=|>|<) ([^()]+?)\)?")
_TIME = re.compile(r"'([^']+)'::TIMESTAMP.*")
FARTHEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is read: offsets and times from the first up to, but not including, the second."""

    offsets: tuple[int, int] = (0, FARTHEST)
    from_ms: int | None = None
    until_ms: int | None = None
    partitions: frozenset[int] | None = None

    def with_offsets(self, first: int, end: int) -> Bounds:
        return replace(self, offsets=(max(self.offsets[0], first), min(self.offsets[1], end)))


@dataclass(frozen=True, slots=True)
class Scan:
    """One reading of a table in a plan."""

    table: str
    bounds: Bounds
    columns: frozenset[str]


def scans_of(plan: Any) -> Iterator[Scan]:
    """All scans of a plan, as `EXPLAIN (FORMAT JSON)` has it."""
    for node in plan if isinstance(plan, list) else [plan]:
        info = node.get("extra_info") or {}
        if isinstance(info, Mapping) and "Table" in info:
            filters = _texts(info.get("Filters"))
            columns = frozenset(_texts(info.get("Projections")))
            yield Scan(_name(str(info["Table"])), bounds_of(filters), columns)
        yield from scans_of(node.get("children") or [])


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(each) for each in value]


def _name(qualified: str) -> str:
    """memory.main."logs.counts" → logs.counts."""
    quoted = re.search(r'"((?:[^"]|"")*)"$', qualified)
    return quoted[1].replace('""', '"') if quoted is not None else qualified.rpartition(".")[2]


def bounds_of(filters: list[str]) -> Bounds:
    """The bounds that all of these conditions set together."""
    bounds = Bounds()
    for condition in filters:
        if re.search(r"\b(?:OR|NOT|CASE)\b", condition):
            continue
        for part in condition.split(" AND "):
            found = _COMPARISON.fullmatch(part.strip().lstrip("(").rstrip(")"))
            if found is not None:
                bounds = _narrowed(bounds, *found.groups())
    return bounds


def _narrowed(bounds: Bounds, column: str, sign: str, value: str) -> Bounds:
    if column == "timestamp":
        time_ms = _time_ms(value)
        if time_ms is None:
            return bounds
        # Milliseconds that the time falls into are read whole.
        if sign in (">", ">=", "="):
            bounds = replace(bounds, from_ms=max(time_ms, bounds.from_ms or time_ms))
        if sign in ("<", "<=", "="):
            bounds = replace(bounds, until_ms=min(time_ms + 1, bounds.until_ms or time_ms + 1))
        return bounds
    number = re.fullmatch(r"(-?\d+)(?:::\w+)?", value)
    if number is None:
        return bounds
    exact = int(number[1])
    if column == "partition":
        if sign != "=":
            return bounds
        known = bounds.partitions
        chosen = frozenset({exact})
        return replace(bounds, partitions=chosen if known is None else known & chosen)
    first = exact + (sign == ">") if sign in (">", ">=", "=") else 0
    end = exact + (sign != "<") if sign in ("<", "<=", "=") else FARTHEST
    return bounds.with_offsets(first, end)


def _time_ms(value: str) -> int | None:
    found = _TIME.fullmatch(value)
    if found is None:
        return None
    try:
        time = datetime.fromisoformat(found[1])
    except ValueError:
        return None
    # DuckDB writes offsets of hours as +00; times are given with one, as the column has a zone.
    return None if time.tzinfo is None else int(time.timestamp() * 1000)
