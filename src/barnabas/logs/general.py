"""The reader of last resort: finds time, level, component and message in a line of no known format."""

from __future__ import annotations

import re

from barnabas.logs.levels import LEVEL_WORD, WORDS, level_of
from barnabas.logs.records import Record
from barnabas.logs.times import (
    BSD,
    BSD_YEARLESS,
    CLOCK,
    COMMON,
    COMPACT,
    CTIME,
    DAY_FIRST,
    EPOCH,
    HALVES,
    ISO,
    MONTH_DAY,
    PACKED,
    SLASHED,
    Times,
)

GENERAL = "general"
HEADER = 200  # The time stands within the first characters, or nowhere.
_EXACT = (
    ISO, CTIME, BSD, COMMON, DAY_FIRST, HALVES, COMPACT, SLASHED, MONTH_DAY, PACKED, CLOCK,
    r"\d\d:\d\d:\d\d",
)  # fmt: skip
# Begins at a word's begin; the look ahead spares trying all of them there.
_TIME = re.compile(
    r"(?<![A-Za-z\d:])(?=\d\d?[/:. -]\d|\d{4}[-/.\d]|\d\d?[/ -][A-Z]|[A-Z][a-z][a-z] )"
    rf"({'|'.join(_EXACT)})(?!\d|:\d)"
)
_NEXT = 100  # Characters behind a time, in which a second one may end.
_EPOCH = re.compile(rf"(?<![\w.:/=-])({EPOCH})(?![\w.:/-])")
_SYSLOG = re.compile(
    r" (?P<host>[^\s\[]\S*) (?P<service>[^\s:\[](?:[^:\[]{0,78}[^\s:\[])?)(?:\[(?P<pid>[^\]]*)\])?:"
    r" ?(?P<message>.*)",
    re.DOTALL,
)
_BSD = re.compile(BSD)
_YEARLESS = re.compile(rf"{BSD_YEARLESS}|{MONTH_DAY}|{CLOCK}|\d\d:\d\d:\d\d")
_FLAG = re.compile(r"\A\s+\d{1,3}(?=\s)")
# Next to the time, or in brackets, a level may be written in any case; in capitals up to six words may stand
# between.  "Closed with error 3" is a message.
_UPPER = "|".join(sorted({word.upper() for word in WORDS}, key=len, reverse=True))
_LEVEL = re.compile(
    rf"[\s\]\[|:,(-]*(?:(?:[^\s\"']+\s+){{0,6}}?[\[(<|]?(?P<upper>{_UPPER})|(?P<near>{LEVEL_WORD})"
    rf"|(?:[^\s\"']+\s+){{0,3}}?\[(?P<inside>{LEVEL_WORD})(?=\]))(?=[\s\]:|,)>/]|$)[\])>|:,]*"
)
_LEADING_LEVEL = re.compile(rf"\s*[\[(<]?({LEVEL_WORD})[\])>]?(?:\s*[:|-]\s*|\s+)")
_NUMBERS = re.compile(r"\A[\s\]|,:-]*(?:\[?#?\d+\]?:?\s+)*")
_BRACKETS = re.compile(r"\s*\[[^\]]*\]:?\s+")
_COMPONENT = re.compile(r"([A-Za-z_$][\w.$/*-]*(?: \*\d+)?(?:\[\d+\])?)(?:\s+-\s+|:\s+)")
_NAME = re.compile(r"[A-Za-z][\w.$/-]*")
_CLASS = re.compile(r"\s*[A-Za-z_$][\w$]*(?:\.[\w$]+)+(?:\s+-\s+|:\s+)")
_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.\w+)+):?\s+(?=\[)")


def read_general(line: str, times: Times) -> Record | None:
    """The record of a line that has a time or begins with a level; None if it has neither."""
    head = line[:HEADER]
    found, whole = _times(head)
    time = times.iso(whole or found[0]) if found is not None else None
    if found is None or time is None:
        match = _LEADING_LEVEL.match(line)
        if match is None:
            return None
        return _parted(line[match.end() :], None, level_of(match[1]))
    rest = line[found.end() :]
    if _BSD.fullmatch(found[0]) and (match := _SYSLOG.match(rest)) is not None:
        fields: dict[str, object] = {name: match[name] for name in ("host", "pid") if match[name]}
        return Record(time, None, match["service"], match["message"], GENERAL, fields)
    match = _LEVEL.match(rest)
    if match is not None:
        level = level_of(match[match.lastgroup or 0])
        columns = rest[: match.start(match.lastgroup or 0)].split()
        if len(columns) > 1 and _NAME.fullmatch(columns[-1]) and not _CLASS.match(rest, match.end()):
            # Words between time and level are columns, the last of them the component: the message follows.
            return Record(time, level, columns[-1], rest[match.end() :].strip(), GENERAL)
        return _parted(rest[match.end() :], time, level)
    before = line[: found.start()]
    match = _LEADING_LEVEL.match(before.lstrip())
    if match is None and _EPOCH.fullmatch(found[0]) and len(before.split()) > 1:
        # So are those before the seconds since 1970, after which a flag or a count may follow.
        return Record(time, None, None, _FLAG.sub("", rest, count=1).strip(), GENERAL)
    return _parted(rest, time, level_of(match[1]) if match is not None else None)


def _times(head: str) -> tuple[re.Match[str] | None, str | None]:
    """The last of the times that the header begins with: files are named after times, and some loggers write
    an epoch before the date.  A time after the first words of a message is part of it.  If the last one has
    no year, the seconds since 1970 before it say the whole time."""
    found = _TIME.search(head)
    if found is None:
        return _EPOCH.search(head), None
    first = found
    while (following := _TIME.search(head, found.end(), found.end() + _NEXT)) is not None:
        if len(head[found.end() : following.start()].split()) > 1:
            break
        found = following
    if _YEARLESS.fullmatch(found[0]) and (epoch := _EPOCH.search(head, 0, first.start())) is not None:
        return found, epoch[0]
    return found, None


def _parted(rest: str, time: str | None, level: str | None) -> Record:
    """Numbers (processes, threads), brackets and the component stand before the message."""
    rest = _NUMBERS.sub("", rest, count=1)
    service = None
    if (match := _COMPONENT.match(rest) or _DOTTED.match(rest)) is not None:
        service = match[1]
        rest = rest[match.end() :]
        if "." in service and (brackets := _BRACKETS.match(rest)) is not None:
            rest = rest[brackets.end() :]
    return Record(time, level, service, rest.strip(), GENERAL)
