"""Times as java.text.SimpleDateFormat formats them, in English and in the local time zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from barnabas.cli.framework.exits import UsageError

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# A run of one letter, or quoted text; two quotes stand for one.
_PIECES = re.compile(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")
_TEXT_WIDTH = 3
_FULL_WIDTH = 4


def _padded(part: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda when, width: f"{part(when):0{width}d}"


def _year(when: datetime, width: int) -> str:
    return f"{when.year % 100:02d}" if width == 2 else f"{when.year:0{width}d}"


def _month(when: datetime, width: int) -> str:
    if width < _TEXT_WIDTH:
        return f"{when.month:0{width}d}"
    name = _MONTHS[when.month - 1]
    return name if width >= _FULL_WIDTH else name[:3]


def _day_name(when: datetime, width: int) -> str:
    name = _DAYS[when.weekday()]
    return name if width >= _FULL_WIDTH else name[:3]


def _iso_zone(when: datetime, width: int) -> str:
    zone = when.strftime("%z")
    if zone == "+0000":
        return "Z"
    return {1: zone[:3], 2: zone}.get(width, f"{zone[:3]}:{zone[3:]}")


_LETTERS: dict[str, Callable[[datetime, int], str]] = {
    "G": lambda when, width: "AD",
    "y": _year,
    "M": _month,
    "L": _month,
    "d": _padded(lambda when: when.day),
    "D": _padded(lambda when: when.timetuple().tm_yday),
    "E": _day_name,
    "u": _padded(lambda when: when.isoweekday()),
    "a": lambda when, width: "AM" if when.hour < 12 else "PM",
    "H": _padded(lambda when: when.hour),
    "k": _padded(lambda when: when.hour or 24),
    "K": _padded(lambda when: when.hour % 12),
    "h": _padded(lambda when: when.hour % 12 or 12),
    "m": _padded(lambda when: when.minute),
    "s": _padded(lambda when: when.second),
    "S": _padded(lambda when: when.microsecond // 1000),
    "z": lambda when, width: when.strftime("%Z"),
    "Z": lambda when, width: when.strftime("%z"),
    "X": _iso_zone,
}


def date_format(pattern: str, flag: str) -> Callable[[int], str]:
    """A function from milliseconds since 1970 to text; raises UsageError for an unknown letter."""
    pieces: list[tuple[str, int] | str] = []
    for match in _PIECES.finditer(pattern):
        text, quoted, letter = match[0], match[1], match[2]
        if letter is not None:
            if letter not in _LETTERS:
                known = "".join(_LETTERS)
                raise UsageError(f"{flag}: unknown letter {letter} in a date format; known letters: {known}")
            pieces.append((letter, len(text)))
        elif quoted is not None:
            pieces.append(quoted.replace("''", "'"))
        else:
            pieces.append("'" if text == "''" else text)

    def formatted(time_ms: int) -> str:
        seconds, milliseconds = divmod(time_ms, 1000)
        when = datetime.fromtimestamp(seconds).astimezone().replace(microsecond=milliseconds * 1000)
        return "".join(
            piece if isinstance(piece, str) else _LETTERS[piece[0]](when, piece[1]) for piece in pieces
        )

    return formatted
