"""Units have one name each: `barnabas.base.units`."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "barnabas"
# A name for a million that does not say a million of what, or that says what `units` says.
OTHER_NAME = re.compile(r"^_?(?:MS|NS_PER_MS|NANOSECONDS_PER_MS|MILLION)(?:: Final)? = 1_?000_?000$", re.M)


def test_a_millisecond_has_one_name() -> None:
    units = SOURCES / "base" / "units.py"
    others = [path for path in SOURCES.rglob("*.py") if path != units]
    named = [str(path.relative_to(SOURCES)) for path in others if OTHER_NAME.search(path.read_text("utf-8"))]
    assert named == []
