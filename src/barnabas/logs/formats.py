"""The formats of text lines, one row each.

The groups of a pattern are `time`, `level`, `service` and `message`; `priority` (syslog) and `status` (HTTP)
give the level too, as do `severity` (of syslog) and `risk` (of CEF); `method` and `path` are the message if
there is no such group; every other group becomes a field.  Rows that say more about a line come first: of two
formats that fit a sample equally well the first is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from barnabas.logs.layouts import loggers, servers, system, web
from barnabas.logs.times import (
    BSD,
    CLOCK,
    COMMON,
    COMPACT,
    CTIME,
    DAY_FIRST,
    HALVES,
    ISO,
    KLOG,
    MONTH_DAY,
    PACKED,
    SLASHED,
)


@dataclass(frozen=True, slots=True)
class Format:
    """A layout of lines."""

    name: str
    pattern: re.Pattern[str]
    # A line whose level is none is not of this format.
    needs_level: bool


# Whether the word is a level, the reader checks: alternations of all levels make slow patterns.
_LEVEL = r"[A-Za-z]{3,13}\d?"
_PARTS = {
    "DAY_FIRST": DAY_FIRST,
    "HALVES": HALVES,
    "COMMON": COMMON,
    "COMPACT": COMPACT,
    "MONTH_DAY": MONTH_DAY,
    "SLASHED": SLASHED,
    "PACKED": PACKED,
    "CLOCK": CLOCK,
    "CTIME": CTIME,
    "LEVEL": _LEVEL,
    "KLOG": KLOG,
    "BSD": BSD,
    "ISO": ISO,
}
_PART = re.compile(
    r"(?<![A-Z|_])(?:"
    + "|".join(_PARTS)
    + r")(?![A-Z_])|(?<=\|)(?:ISO|COMPACT|CLOCK|SLASHED|PACKED|LEVEL)(?=[|)])"
)


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of the table, with the names of its parts replaced."""
    return re.compile(_PART.sub(lambda part: _PARTS[part[0]], pattern), re.DOTALL)


def named(name: str, pattern: str) -> Format:
    """A format of a pattern whose groups are called as those of the table; ISO, LEVEL and so on stand for the
    usual times and levels.  Raises ValueError."""
    try:
        expression = compiled(pattern)
    except re.error as error:
        raise ValueError(f"the format {name}: {error}") from error
    if not expression.groupindex or len(expression.groupindex) != expression.groups:
        raise ValueError(f"the format {name}: every group needs a name, such as (?P<message>.*)")
    return Format(name, expression, "(?P<level>LEVEL" in pattern)


_ROWS = (*system.ROWS, *web.ROWS, *loggers.ROWS, *servers.ROWS, *system.LAST_ROWS)
FORMATS = tuple(named(name, pattern) for name, pattern in _ROWS)
