"""Times and durations as Apache Kafka's tools read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,18})D)?"
    r"(T(?:([-+]?\d{1,18})H)?(?:([-+]?\d{1,18})M)?(?:([-+]?\d{1,18})(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000


def moment_ms(text: str) -> int:
    """`2026-11-15T12:00:00.000`, with or without an offset from UTC; raises ValueError."""
    if "T" not in text:
        raise ValueError("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time such as 2026-11-15T12:00:00.000: {error}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int((moment - datetime.fromtimestamp(0, UTC)).total_seconds() * SECOND_MS)


def duration_ms(text: str) -> int:
    """`P7D`, `PT1H30M`, `PT0.5S`; raises ValueError with Java's message."""
    match = _DURATION.fullmatch(text)
    if match is None or match[0][-1:].upper() in ("P", "T"):
        raise ValueError("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    total = int(days or 0) * DAY_MS + int(hours or 0) * HOUR_MS + int(minutes or 0) * MINUTE_MS
    below = int(f"{fraction or '':0<9}"[:3])
    total += int(seconds or 0) * SECOND_MS + (-below if (seconds or "").startswith("-") else below)
    return -total if sign == "-" else total
