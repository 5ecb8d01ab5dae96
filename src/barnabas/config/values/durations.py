"""ISO-8601 durations as Java's Duration reads them: days down to seconds, each part with its own sign."""

from __future__ import annotations

import re

_PATTERN = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_NANOS = 1_000_000_000
_MOST_SECONDS = 2**63 - 1
# A longer text cannot be a duration that fits; it is rejected before it is parsed.
_LONGEST_TEXT = 200


def parse_duration_ns(text: str) -> int:
    """The duration in nanoseconds; ValueError for anything that Java refuses."""
    match = _PATTERN.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as PT1H30M or P2D")
    sign, days, time, hours, minutes, seconds, fraction = match.groups()
    if (time is not None and len(time) == 1) or (days, hours, minutes, seconds) == (None, None, None, None):
        raise ValueError(f"{text!r} contains no part of a duration")
    total = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60 + int(seconds or 0)
    if abs(total) > _MOST_SECONDS:
        raise ValueError(f"{text!r} is too long a duration")
    nanos = int((fraction or "0").ljust(9, "0"))
    if seconds is not None and seconds.startswith("-"):
        nanos = -nanos
    whole = total * _NANOS + nanos
    return -whole if sign == "-" else whole
