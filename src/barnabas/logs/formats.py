"""The formats of text lines, one row each.

The groups of a pattern are `time`, `level`, `service` and `message`; `priority` (syslog) and `status` (HTTP)
give the level too, as do `severity` (of syslog) and `risk` (of CEF); `method` and `path` are the message if
there is no such group; every other group becomes a field.  Rows that say more about a line come first: of two
formats that fit a sample equally well the first is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from barnabas.logs.layouts import loggers, servers, system, web
from barnabas.logs.levels import level_of, level_of_priority, level_of_risk, level_of_status
from barnabas.logs.records import Record
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
    Times,
)

Read = Callable[[str], Record | None]


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


# Reading a line ---------------------------------------------------------------------------------------------

_LEVEL_NUMBERS: dict[str, Callable[[str], str]] = {
    "status": level_of_status,
    "severity": level_of_priority,
    "risk": level_of_risk,
}
_PARAMETERS = {"structured", "pairs"}  # Groups whose parts are fields.
_PAIR = re.compile(r"""([\w.@-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"\]]*))""")


def _parameters(text: str) -> dict[str, str]:
    """The parameters of RFC 5424's structured data, and other pairs."""
    return {name: re.sub(r"\\(.)", r"\1", quoted or plain) for name, quoted, plain in _PAIR.findall(text)}


def reader_of(format: Format, times: Times) -> Read:
    """A function from a line to its record, or None if it is none of the format."""
    match_line, name, iso = format.pattern.fullmatch, format.name, times.iso
    places = {group: number - 1 for group, number in format.pattern.groupindex.items()}
    time_at, level_at = places.pop("time", -1), places.pop("level", -1)
    service_at, message_at = places.pop("service", -1), places.pop("message", -1)
    priority_at = places.pop("priority", -1)
    other_at, level_of_other = _other_level(places)
    method_at, path_at = places.get("method", -1), places.get("path", -1)
    others, needs_level = tuple(places.items()), format.needs_level

    def read(line: str) -> Record | None:
        match = match_line(line)
        if match is None:
            return None
        groups = match.groups()
        time = groups[time_at] if time_at >= 0 else None
        if time is not None and time != "-":
            time = iso(time)
            if time is None:
                return None
        else:
            time = None
        level = level_of(groups[level_at]) if level_at >= 0 else None
        if level is None and needs_level:
            return None
        if priority_at >= 0 and groups[priority_at]:
            level = level_of_priority(groups[priority_at])
        elif other_at >= 0 and level_at < 0:
            level = level_of_other(groups[other_at])
        service = groups[service_at] if service_at >= 0 else None
        if service == "-" or service == "":
            service = None
        kept: dict[str, object] = {}
        for field, place in others:
            value = groups[place]
            if value is not None and value != "-":
                if field in _PARAMETERS:
                    kept.update(_parameters(value))
                else:
                    kept[field] = value
        if message_at >= 0:
            message = groups[message_at] or ""
        else:
            message = f"{groups[method_at]} {groups[path_at]}" if method_at >= 0 and path_at >= 0 else line
        return Record(time, level, service, message, name, kept)

    return read


def _other_level(places: Mapping[str, int]) -> tuple[int, Callable[[str], str]]:
    """Where a number stands that gives the level, and what it means."""
    for group, meaning in _LEVEL_NUMBERS.items():
        if group in places:
            return places[group], meaning
    return -1, level_of_status
