"""Bounds from DuckDB's plans."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.tables.pruning import FARTHEST, Bounds, bounds_of, scans_of

TIME = "'2026-01-01 00:00:00.5+00'::TIMESTAMP WITH TIME ZONE"
TIME_MS = 1_767_225_600_500


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Bounds()),
        (['("offset" >= 10)'], Bounds(offsets=(10, FARTHEST))),
        (["((offset > 10) AND (offset < 99))"], Bounds(offsets=(11, 99))),
        (["(offset <= 9)", "(offset = 5)"], Bounds(offsets=(5, 6))),
        (["(partition = 3)", "(partition = 4)"], Bounds(partitions=frozenset())),
        ([f"(timestamp >= {TIME})"], Bounds(from_ms=TIME_MS)),
        ([f"(timestamp < {TIME})"], Bounds(until_ms=TIME_MS + 1)),
        # What is not understood sets no bound.
        (["((offset = 5) OR (partition = 1))"], Bounds()),
        (["(NOT (offset = 5))"], Bounds()),
        (["(offset >= length(text))", "(key = 'offset >= 5'::BLOB)"], Bounds()),
        (["(timestamp >= '2026-01-01 00:00:00'::TIMESTAMP)"], Bounds()),
    ],
)
def test_what_conditions_say(filters: list[str], expected: Bounds) -> None:
    assert bounds_of(filters) == expected


def test_scans_are_found_anywhere_in_a_plan() -> None:
    scan: Any = {
        "name": "SEQ_SCAN",
        "extra_info": {"Table": 'memory.main."a.b"', "Projections": "text", "Filters": "(offset = 1)"},
    }
    plan = [{"name": "JOIN", "children": [scan, {"children": [{"extra_info": {"Table": "memory.main.c"}}]}]}]
    first, second = scans_of(plan)
    assert (first.table, first.bounds.offsets, first.columns) == ("a.b", (1, 2), {"text"})
    assert (second.table, second.bounds, second.columns) == ("c", Bounds(), frozenset())
