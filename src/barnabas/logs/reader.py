"""Lines of one source into records: detection on a sample, wrappers, stack traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice

from barnabas.logs.formats import FORMATS, Format
from barnabas.logs.general import read_general
from barnabas.logs.levels import level_of, level_of_priority, level_of_risk, level_of_status
from barnabas.logs.records import UNKNOWN, Record
from barnabas.logs.structured import json_object, read_json, read_logfmt
from barnabas.logs.times import ISO, Times

SAMPLE = 500
SETTLED = 100  # Lines after which the formats of a source are remembered.
MOSTLY = 0.9  # Of the sample; then the general reader comes first.
LONGEST_TRACE = 1_000  # Lines; a source of nothing but indented lines must not be held in memory.

_Read = Callable[[str], Record | None]
_Wrapped = tuple[str, str, str, int]  # Time, stream, line, and of how many lines it was put together.
_CONTINUED = re.compile(
    r"\s+\S|Caused by: |Suppressed: |Traceback \(most recent call last\):"
    r"|During handling of the above exception"
    r"|The above exception was the direct cause|goroutine \d+ \[|panic: |created by |\.\.\. \d+ more"
    r"|[\w.$]*(?:Exception|Error|Warning|Interrupt|Throwable)(?::|$)|[\w$]+(?:\.[\w$]+)+(?:Exception|Error)\b"
)
_LEVEL_NUMBERS: dict[str, Callable[[str], str]] = {
    "status": level_of_status,
    "severity": level_of_priority,
    "risk": level_of_risk,
}
_PARAMETERS = {"structured", "pairs"}  # Groups whose parts are fields.
_PAIR = re.compile(r"""([\w.@-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"\]]*))""")
# Kubernetes' CRI: time stream tag content; P is a part of a line, F its end.
_CRI = re.compile(
    rf"(?P<time>{ISO}) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S+)? (?P<line>.*)", re.DOTALL
)


def _parameters(text: str) -> dict[str, str]:
    """The parameters of RFC 5424's structured data, and other pairs."""
    return {name: re.sub(r"\\(.)", r"\1", quoted or plain) for name, quoted, plain in _PAIR.findall(text)}


def _of_format(format: Format, times: Times) -> _Read:
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


class Reader:
    """Reads the lines of one source.  `arrival` settles times without a year; `formats` are tried before
    those of the table.  `records` may be called again: the formats found first are remembered."""

    def __init__(self, arrival: datetime, formats: Sequence[Format] = ()) -> None:
        times = Times(arrival)
        self._times = times
        self._arrival = arrival
        self._own = tuple(formats)
        self._json: _Read = lambda line: read_json(line, times)
        self._general: _Read = lambda line: read_general(line, times)
        self._strict_reads: list[_Read] = [
            *(_of_format(format, times) for format in formats),
            self._json,
            *(_of_format(format, times) for format in FORMATS),
            lambda line: read_logfmt(line, times),
        ]
        self._reads = [*self._strict_reads, self._general]
        self._wrapper: str | None = None
        self._inner: Reader | None = None
        self._is_settled = False

    def records(self, lines: Iterable[str]) -> Iterator[Record]:
        """The records of lines, in their order; blank lines are left out."""
        source = (line for line in lines if line and not line.isspace())
        sample: list[str] = []
        if not self._is_settled:
            sample = list(islice(source, SAMPLE))
            self._detect(sample)
        whole = chain(sample, source)
        if self._wrapper == "cri":
            return self._unwrapped("cri", _cri_lines(whole))
        if self._wrapper == "docker":
            return self._unwrapped("docker", _docker_lines(whole))
        return self._joined(whole)

    def _detect(self, sample: Sequence[str]) -> None:
        self._wrapper = (
            "cri" if _mostly(sample, _CRI.fullmatch) else "docker" if _mostly(sample, _docker_line) else None
        )
        if self._wrapper is None:
            self._order(sample)
        self._is_settled = len(sample) >= SETTLED

    def _order(self, sample: Sequence[str]) -> None:
        """Formats that fit more of the sample are tried first; the general reader last, unless nearly all
        lines are of no known format."""
        fitting: Counter[int] = Counter()
        unknown = 0
        for line in sample:
            if not _CONTINUED.match(line):
                fits = [place for place, read in enumerate(self._strict_reads) if read(line) is not None]
                fitting.update(fits)
                unknown += not fits
        places = self._specific_first(fitting)
        self._reads = [*(self._strict_reads[place] for place in places), self._general]
        if unknown > MOSTLY * len(sample):
            known = [self._strict_reads[place] for place in places if fitting[place]]
            self._reads = [self._unindented, self._json, *known, *self._reads]

    def _specific_first(self, fitting: Counter[int]) -> list[int]:
        """Places of formats, best first; of one name the rows that say more, even if they fit fewer lines."""
        first = len(self._own) + 1
        names = {first + row: format.name for row, format in enumerate(FORMATS)}
        ordered: dict[int, None] = {}
        for place in sorted(range(len(self._strict_reads)), key=lambda place: (-fitting[place], place)):
            name = names.get(place)
            if name is not None:
                more = (row for row in range(first, place) if names[row] == name and fitting[row])
                ordered.update(dict.fromkeys(more))
            ordered[place] = None
        return list(ordered)

    def _unindented(self, line: str) -> Record | None:
        """The general reader as the first one: JSON and indented lines are left to the others."""
        return None if line[0].isspace() or line[0] == "{" else self._general(line)

    def _read(self, line: str) -> Record | None:
        for read in self._reads:
            record = read(line)
            if record is not None:
                return record
        return None

    def _joined(self, lines: Iterable[str]) -> Iterator[Record]:
        first = self._reads[0]
        current: Record | None = None
        trace: list[str] = []
        for line in lines:
            record = first(line)
            if record is None:
                continued = current is not None and len(trace) < LONGEST_TRACE and _CONTINUED.match(line)
                if continued and (line[0].isspace() or self._strict(line) is None):
                    trace.append(line)
                    continue
                record = self._read(line) or Record(None, None, None, line, UNKNOWN)
            if current is not None:
                if trace:
                    _attach(current, trace)
                    trace = []
                yield current
            current = record
        if current is not None:
            if trace:
                _attach(current, trace)
            yield current

    def _strict(self, line: str) -> Record | None:
        """What a line says by a known format, not by the general reader."""
        return next((record for read in self._strict_reads if (record := read(line)) is not None), None)

    def _unwrapped(self, name: str, wrapped: Iterable[_Wrapped]) -> Iterator[Record]:
        """Records of the lines in a wrapper, which gives the time if they have none."""
        starts: list[tuple[str, str, int]] = []  # Time, stream and number of lines of each not yet read.

        def inner() -> Iterator[str]:
            for time, stream, line, count in wrapped:
                if line and not line.isspace():
                    starts.append((time, stream, count))
                    yield line

        if self._inner is None:
            self._inner = Reader(self._arrival, self._own)
        for record in self._inner.records(inner()):
            time, stream, _ = starts[0]
            read, starts[: record.lines] = starts[: record.lines], []
            record.lines = sum(count for _, _, count in read)
            record.time = record.time or self._times.iso(time)
            record.fields["stream"] = stream
            record.format = name if record.format == UNKNOWN else f"{name}+{record.format}"
            yield record


def is_continuation(line: str) -> bool:
    """Whether a line looks like a part of a stack trace."""
    return _CONTINUED.match(line) is not None


def _attach(record: Record, trace: list[str]) -> None:
    record.fields["trace"] = "\n".join(trace)
    record.lines += len(trace)


def _mostly(sample: Sequence[str], fits: Callable[[str], object]) -> bool:
    return bool(sample) and sum(bool(fits(line)) for line in sample) * 2 > len(sample)


def _cri_lines(lines: Iterable[str]) -> Iterator[_Wrapped]:
    parts: dict[str, str] = {}
    counts: dict[str, int] = {}
    for line in lines:
        match = _CRI.fullmatch(line)
        if match is None:
            yield "", "", line, 1
            continue
        stream = match["stream"]
        count = counts.pop(stream, 0) + 1
        if match["tag"] == "P" and len(parts.get(stream, "")) < 1_000_000:
            parts[stream] = parts.get(stream, "") + match["line"]
            counts[stream] = count
        else:
            yield match["time"], stream, parts.pop(stream, "") + match["line"], count


def _docker_line(line: str) -> _Wrapped | None:
    value = json_object(line)
    if value is None or not isinstance(value.get("log"), str) or "stream" not in value or "time" not in value:
        return None
    return str(value["time"]), str(value["stream"]), str(value["log"]).rstrip("\n"), 1


def _docker_lines(lines: Iterable[str]) -> Iterator[_Wrapped]:
    for line in lines:
        yield _docker_line(line) or ("", "", line, 1)
