"""Times in lines, and as ISO 8601.

A time without a year takes the latest year in which it is not after `arrival` (by more than a day, for clocks
that differ).  The offset from UTC is given only if the line gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS = {name: number for number, name in enumerate(_MONTHS, start=1)}
_MONTH = "(?:" + "|".join(MONTHS) + ")"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_FRACTION = r"(?:[.,:]\d{1,9})?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
_CLOCK = r"\d\d:\d\d:\d\d"

ISO = rf"\d{{4}}[-/.]\d\d[-/.]\d\d[T _-]\d\d[:.]\d\d[:.]\d\d{_FRACTION}{_ZONE}"
BSD = rf"{_MONTH} +\d{{1,2}}(?: \d{{4}})? {_CLOCK}(?:\.\d{{1,9}})?"
BSD_YEARLESS = rf"{_MONTH} +\d{{1,2}} {_CLOCK}(?:\.\d{{1,9}})?"
SLASHED = rf"\d\d/\d\d/\d\d {_CLOCK}{_FRACTION}"  # yy/MM/dd, log4j's in Spark.
PACKED = rf"\d{{6}} (?:\d{{6}}|{_CLOCK})"  # yyMMdd HHmmss
# Some loggers do not fill numbers with zeros: 20171224-0:7:20:444.
COMPACT = rf"\d{{8}}[-T ](?:\d{{6}}|\d{{1,2}}:\d{{1,2}}:\d{{1,2}}){_FRACTION}{_ZONE}"
MONTH_DAY = rf"\d\d[-.]\d\d {_CLOCK}{_FRACTION}"
KLOG = rf"\d{{4}}(?:\d{{4}})? {_CLOCK}\.\d{{6}}"
CTIME = rf"{_DAY} {_MONTH} +\d{{1,2}} {_CLOCK}(?:\.\d{{1,9}})? \d{{4}}"
COMMON = rf"\d\d/{_MONTH}/\d{{4}}[: ]{_CLOCK}(?:\.\d{{1,6}})?(?: [+-]\d{{4}})?"
DAY_FIRST = rf"\d{{1,2}}[ -]{_MONTH}[ -]\d{{4}} {_CLOCK}{_FRACTION}{_ZONE}"
# MM/dd/yyyy as in the United States, and java.util.logging's; with halves of the day.
HALVES = (
    rf"(?:\d{{1,2}}/\d{{1,2}}/\d{{4}}|{_MONTH} \d{{1,2}}, \d{{4}}),? \d{{1,2}}:\d\d:\d\d"
    r"(?:\.\d{1,9})?(?: [AP]M\b)?"
)
EPOCH = r"(?:1\d{9}|[89]\d{8})(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?"
CLOCK = rf"{_CLOCK}[.,]\d{{3,9}}"

_Fields = tuple[int, int, int, str]  # year or 0, month or 0, day, HH:MM:SS


def _numbers(year: str, month: str, day: str, clock: str) -> _Fields:
    number = MONTHS.get(month) or int(month or 0)
    full = int(year or 0)
    return (full + 2000 if year and len(year) == 2 else full, number, int(day or 0), clock)


def _compact(clock: str) -> str:
    if clock.isdecimal():
        return f"{clock[:2]}:{clock[2:4]}:{clock[4:6]}"
    return clock.replace(".", ":")


def _of_half(clock: str, half: str | None) -> str:
    if half is None:
        return clock
    hour, _, rest = clock.partition(":")
    return f"{int(hour) % 12 + (12 if half == 'PM' else 0)}:{rest}"


# Pattern of the part before the fraction, and how its groups become a date and a clock.
_SHAPES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Fields]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (
            r"(\d{4})[-/.](\d\d)[-/.](\d\d)(?:[T _\t-]| - )(\d\d[:.]\d\d[:.]\d\d)",
            lambda m: _numbers(m[1], m[2], m[3], _compact(m[4])),
        ),
        (
            rf"(?:{_DAY} )?({_MONTH}) +(\d{{1,2}})(?: (\d{{4}}))? ({_CLOCK})",
            lambda m: _numbers(m[3], m[1], m[2], m[4]),
        ),
        (rf"(\d\d)/(\d\d)/(\d\d) ({_CLOCK})", lambda m: _numbers(m[1], m[2], m[3], m[4])),
        (rf"(\d\d)(\d\d)(\d\d) (\d{{6}}|{_CLOCK})", lambda m: _numbers(m[1], m[2], m[3], _compact(m[4]))),
        (
            r"(\d{4})(\d\d)(\d\d)[-T ](\d{6}|\d{1,2}:\d{1,2}:\d{1,2})",
            lambda m: _numbers(m[1], m[2], m[3], _compact(m[4])),
        ),
        (rf"(\d\d)[-.](\d\d)[ |]({_CLOCK})", lambda m: _numbers("", m[1], m[2], m[3])),
        (rf"(\d\d)(\d\d) ({_CLOCK})", lambda m: _numbers("", m[1], m[2], m[3])),
        (r"(\d\d)(\d\d)/(\d{6})", lambda m: _numbers("", m[1], m[2], _compact(m[3]))),
        (rf"(\d\d)/({_MONTH})/(\d{{4}})[: ]({_CLOCK})", lambda m: _numbers(m[3], m[2], m[1], m[4])),
        (rf"(\d{{1,2}})[ -]({_MONTH})[ -](\d{{4}}) ({_CLOCK})", lambda m: _numbers(m[3], m[2], m[1], m[4])),
        (
            r"(\d{1,2})/(\d{1,2})/(\d{4})(?:,? |-)(\d{1,2}:\d\d:\d\d)(?: ([AP]M))?",
            lambda m: _numbers(m[3], m[1], m[2], _of_half(m[4], m[5])),
        ),
        (
            rf"({_MONTH}) (\d{{1,2}}), (\d{{4}}),? (\d{{1,2}}:\d\d:\d\d)(?: ([AP]M))?",
            lambda m: _numbers(m[3], m[1], m[2], _of_half(m[4], m[5])),
        ),
        (_CLOCK, lambda m: _numbers("", "", "", m[0])),
        # Kitchen time, as on Go's terminals: 3:04PM.
        (r"(\d{1,2}:\d\d):00 ([AP]M)", lambda m: _numbers("", "", "", _of_half(f"{m[1]}:00", m[2]))),
    )
)
# The first lets the part before the fraction be as short as possible: it ends with the seconds.
_PARTS = re.compile(
    r"(.*?(?:(?<!\d)\d{1,2}[:.]\d\d[:.]\d\d|[T /-]\d{6}|-\d{1,2}:\d{1,2}:\d{1,2}))"
    r"(?:[.,:](\d{1,9}))? ?([A-Z]+|[+-]\d\d:?\d\d)?"
)
_CTIME_PARTS = re.compile(rf"({_DAY} {_MONTH} +\d{{1,2}} {_CLOCK})(?:\.(\d+))? (\d{{4}})")
_KITCHEN = re.compile(r"(\d{1,2}:\d\d)([AP]M)")
_EPOCH = re.compile(EPOCH)
_CACHED = 10_000


class Times:
    """Turns times of one source into ISO 8601; remembers the seconds that it has seen."""

    def __init__(self, arrival: datetime) -> None:
        self._arrival = arrival.replace(tzinfo=None) + timedelta(days=1)
        self._seconds: dict[str, str | None] = {}
        self._whole: dict[str, str] = {}  # Times without a fraction, with their offsets.

    def iso(self, text: str) -> str | None:
        """The time, or None if it is none."""
        whole = self._whole.get(text)
        if whole is not None:
            return whole
        # A second that was seen before, with or without a fraction: most lines.
        cut = text.find(",", 8)
        if cut < 0:
            cut = text.find(".", 8)
        known = self._seconds.get(text if cut < 0 else text[:cut])
        if known is not None:
            if cut < 0:
                return known
            fraction = text[cut + 1 :]
            if fraction.isdecimal() and len(fraction) < 10:
                return f"{known}.{fraction}"
        return self._iso(text)

    def _iso(self, text: str) -> str | None:
        if (match := _KITCHEN.fullmatch(text)) is not None:
            text = f"{match[1]}:00 {match[2]}"
        if (match := _PARTS.fullmatch(text)) is not None:
            seconds, fraction, zone = match.groups()
            if zone in ("AM", "PM"):
                seconds, zone = f"{seconds} {zone}", None
        elif (match := _CTIME_PARTS.fullmatch(text)) is not None:
            words = match[1].rsplit(" ", 1)
            seconds, fraction, zone = f"{words[0]} {match[3]} {words[1]}", match[2], None
        else:
            return self._epoch(text)
        if seconds in self._seconds:
            start = self._seconds[seconds]
        else:
            if len(self._seconds) >= _CACHED:
                self._seconds.clear()
            start = self._seconds[seconds] = self._start(seconds)
        if start is None:
            return None
        if fraction:
            start = f"{start}.{fraction}"
        made = start + _offset(zone) if zone else start
        if not fraction:
            if len(self._whole) >= _CACHED:
                self._whole.clear()
            self._whole[text] = made
        return made

    def _start(self, text: str) -> str | None:
        for pattern, make in _SHAPES:
            match = pattern.fullmatch(text)
            if match is None:
                continue
            year, month, day, clock = make(match)
            try:
                return self._settled(year, month, day, clock).isoformat()
            except ValueError:
                continue
        return None

    def _settled(self, year: int, month: int, day: int, clock: str) -> datetime:
        hour, minute, second = map(int, clock.split(":"))
        second = min(second, 59)  # A leap second has no place in a datetime.
        if year:
            return datetime(year, month, day, hour, minute, second)
        if not month:
            date = self._arrival - timedelta(days=1)
            return date.replace(hour=hour, minute=minute, second=second, microsecond=0)
        for guess in range(self._arrival.year, self._arrival.year - 9, -1):
            try:
                time = datetime(guess, month, day, hour, minute, second)
            except ValueError:
                continue  # 29 February of another year.
            if time <= self._arrival:
                return time
        raise ValueError("no year fits")

    def _epoch(self, text: str) -> str | None:
        if not _EPOCH.fullmatch(text):
            return None
        return epoch(int(text)) if text.isdecimal() else epoch(float(text))


def epoch(number: float) -> str | None:
    """A number of seconds, milli-, micro- or nanoseconds since 1970, told apart by its size."""
    for limit, scale in ((1e11, 1), (1e14, 1_000), (1e17, 1_000_000), (1e20, 1_000_000_000)):
        if not 0 < number < limit:
            continue
        if isinstance(number, int):
            seconds, rest = divmod(number, scale)
            digits = len(str(scale)) - 1
            fraction = f".{rest:0{digits}d}" if rest else ""
            return f"{_utc(seconds).isoformat()}{fraction}Z"
        return f"{_utc(number / scale).isoformat(timespec='auto')}Z"
    return None


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _offset(zone: str) -> str:
    if zone in ("Z", "UTC", "GMT", "z"):
        return "Z"
    if zone[0] in "+-":
        return zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    return ""
