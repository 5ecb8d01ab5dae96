"""Parses times and positions in a log: `-30m`, `now`, `2026-03-01T12:00`, `latest`, `42`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_STEP = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_DURATION = re.compile(rf"(?:{_STEP.pattern})+")
EXAMPLES = "now, -30m, -1h30m, 2026-03-01, 2026-03-01T12:00 or 2026-03-01T12:00:00Z"


def parse_duration_ms(text: str) -> int:
    """`500ms`, `30s`, `1h30m`; raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration: write 500ms, 30s, 5m, 1h30m, 7d or 2w")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in _STEP.findall(text))


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; a time without a zone is in the zone of this machine."""
    if text == "now":
        return now_ms
    if text[:1] in ("-", "+") and _DURATION.fullmatch(text[1:]):
        distance_ms = parse_duration_ms(text[1:])
        return now_ms - distance_ms if text[0] == "-" else now_ms + distance_ms
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is not a time: write {EXAMPLES}") from None


def show_time(at_ms: object) -> str:
    """A timestamp as a table cell; a number if it is out of range."""
    assert isinstance(at_ms, int)
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def show_age(age_ms: int) -> str:
    """A duration in its two largest units."""
    if age_ms < 1_000:
        return f"{age_ms} ms"
    parts = []
    left_s = age_ms // 1_000
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left_s = divmod(left_s, length_s)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


class LogEnd(Enum):
    """The start or the end of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a time."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class FromEnd:
    """`count` records before the end."""

    count: int


Position = LogEnd | AtTime | FromEnd | int
POSITIONS = f"earliest, latest, an offset, -N (the last N of each partition) or a time ({EXAMPLES})"
_EDGES = {
    "earliest": LogEnd.EARLIEST,
    "beginning": LogEnd.EARLIEST,
    "latest": LogEnd.LATEST,
    "end": LogEnd.LATEST,
}


def parse_position(text: str, now_ms: int) -> Position:
    """A position in a partition; an integer is an offset."""
    if text in _EDGES:
        return _EDGES[text]
    if text.isascii() and text.isdecimal():
        return int(text)
    if text[:1] == "-" and text[1:].isascii() and text[1:].isdecimal():
        return FromEnd(int(text[1:]))
    try:
        return AtTime(parse_time_ms(text, now_ms))
    except ValueError:
        raise ValueError(f"{text!r} is not a position in a log: write {POSITIONS}") from None
