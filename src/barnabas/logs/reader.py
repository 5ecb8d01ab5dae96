"""Lines of one source into records: detection on a sample, wrappers, stack traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import TypeVar

from barnabas.logs.blocks import BLOCKS, Block
from barnabas.logs.columns import COLUMNS, Columns
from barnabas.logs.formats import FORMATS, Read, reader_of
from barnabas.logs.general import GENERAL, read_general
from barnabas.logs.known import NOTHING_KNOWN, Function, Known
from barnabas.logs.records import UNKNOWN, Record
from barnabas.logs.structured import USUAL, read_json, read_logfmt
from barnabas.logs.times import Times
from barnabas.logs.wrappers import CRI, Wrapped, cri_lines, docker_line, docker_lines

SAMPLE = 500
SETTLED = 100  # Lines after which the formats of a source are remembered.
EVERY = 4  # Further lines of the sample that are looked at.
MOSTLY = 0.9  # Of the sample; then the general reader comes first.
LONGEST_TRACE = 1_000  # Lines; a source of nothing but indented lines must not be held in memory.

CHUNK = 10_000  # Lines that a function reads at once.
WRAPPERS = ("cri", "docker")
_CONTINUED = re.compile(
    r"\s+\S|Caused by: |Suppressed: |Traceback \(most recent call last\):"
    r"|During handling of the above exception"
    r"|The above exception was the direct cause|goroutine \d+ \[|panic: |created by |\.\.\. \d+ more"
    r"|[\w.$]*(?:Exception|Error|Warning|Interrupt|Throwable)(?::|$)|[\w$]+(?:\.[\w$]+)+(?:Exception|Error)\b"
)


_Item = TypeVar("_Item")


def names_of_formats(known: Known = NOTHING_KNOWN) -> frozenset[str]:
    """What a source's format may be called."""
    patterns = [format.name for format in (*known.formats, *FORMATS)]
    others = [each.name for each in known.functions] + [block.name for block in BLOCKS]
    return frozenset({*patterns, *others, *WRAPPERS, COLUMNS, GENERAL, "json", "logfmt"})


class Reader:
    """Reads the lines of one source.  `arrival` settles times without a year; `known` is what goes before the
    tables; a `format` that is given is the only one tried (`docker+json`: within a wrapper).  `records` may
    be called again: the formats found first are remembered."""

    def __init__(self, arrival: datetime, known: Known = NOTHING_KNOWN, format: str | None = None) -> None:
        times = Times(arrival)
        self._times = times
        self._arrival = arrival
        self._known = known
        names = known.names.before(USUAL)
        telling = names.telling()
        self._json: Read = lambda line: read_json(line, times, names)
        self._general: Read = lambda line: read_general(line, times)
        self._named_reads: list[tuple[str, Read]] = [
            *((format.name, reader_of(format, times)) for format in known.formats),
            ("json", self._json),
            *((format.name, reader_of(format, times)) for format in FORMATS),
            ("logfmt", lambda line: read_logfmt(line, times, names, telling)),
            (COLUMNS, Columns(times).read),
        ]
        self._strict_reads = [read for _, read in self._named_reads]
        self._reads = [*self._strict_reads, self._general]
        self._wrapper: str | None = None
        self._block: Block | None = None
        self._function: Function | None = None
        self._inner: Reader | None = None
        self._inner_format: str | None = None
        self._is_settled = False
        if format is not None:
            self._settle(format)

    def _settle(self, format: str) -> None:
        """Only this format, without looking at a sample."""
        self._is_settled = True
        wrapper, _, inner = format.partition("+")
        if wrapper in WRAPPERS:
            self._wrapper, self._inner_format = wrapper, inner or None
            return
        self._block = next((block for block in BLOCKS if block.name == format), None)
        self._function = next((each for each in self._known.functions if each.name == format), None)
        reads = [read for name, read in self._named_reads if name == format]
        self._reads = self._strict_reads = [self._general] if format == GENERAL else reads

    def records(self, lines: Iterable[str]) -> Iterator[Record]:
        """The records of lines, in their order; blank lines are left out."""
        source = (line for line in lines if line and not line.isspace())
        sample: list[str] = []
        if not self._is_settled:
            sample = list(islice(source, SAMPLE))
            self._detect(sample)
        whole = chain(sample, source)
        if self._wrapper == "cri":
            return self._unwrapped("cri", cri_lines(whole))
        if self._wrapper == "docker":
            return self._unwrapped("docker", docker_lines(whole))
        if self._block is not None:
            return self._blocked(self._block, whole)
        if self._function is not None:
            return self._called(self._function, whole)
        return self._joined(whole)

    def _detect(self, sample: Sequence[str]) -> None:
        self._wrapper = (
            "cri" if _mostly(sample, CRI.fullmatch) else "docker" if _mostly(sample, docker_line) else None
        )
        if self._wrapper is None:
            self._function = next((each for each in self._known.functions if self._fits(each, sample)), None)
            self._order(sample)
            self._block = next((block for block in BLOCKS if self._consists(sample, block)), None)
        self._is_settled = len(sample) >= SETTLED

    def _fits(self, function: Function, sample: Sequence[str]) -> bool:
        return _mostly(function.read(sample, self._times), lambda record: record is not None)

    def _consists(self, sample: Sequence[str], block: Block) -> bool:
        """Whether most lines are in such blocks, and say nothing on their own."""
        if not any(block.begins(line, ()) for line in sample):
            return False
        inside = 0
        for lines in block.split(sample):
            if block.begins(lines[0], ()) and block.read(lines, self._times) is not None:
                inside += sum(self._strict(line) is None for line in lines)
        return inside * 2 > len(sample)

    def _order(self, sample: Sequence[str]) -> None:
        """Formats that fit more of the sample are tried first; the general reader last, unless nearly all
        lines are of no known format."""
        fitting: Counter[int] = Counter()
        seen = unknown = 0
        # All formats are tried on the first lines, and on some of the others: that takes most of the time.
        for line in chain(sample[:SETTLED], sample[SETTLED::EVERY]):
            if not _CONTINUED.match(line):
                seen += 1
                fits = [place for place, read in enumerate(self._strict_reads) if read(line) is not None]
                fitting.update(fits)
                unknown += not fits
        places = self._specific_first(fitting)
        self._reads = [*(self._strict_reads[place] for place in places), self._general]
        if unknown > MOSTLY * seen:
            known = [self._strict_reads[place] for place in places if fitting[place]]
            self._reads = [self._unindented, self._json, *known, *self._reads]

    def _specific_first(self, fitting: Counter[int]) -> list[int]:
        """Places of formats, best first; of one name the rows that say more, even if they fit fewer lines."""
        first = len(self._known.formats) + 1
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

    def _joined(self, lines: Iterable[str], first: Read | None = None) -> Iterator[Record]:
        """Stack traces put together; `first` is the format of most lines, and is called once for each."""
        first = first or (self._reads[0] if self._reads else _nothing)
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

    def _blocked(self, block: Block, lines: Iterable[str]) -> Iterator[Record]:
        for part in block.split(lines):
            record = block.read(part, self._times)
            if record is None:
                yield from self._joined(part)
            else:
                record.lines = len(part)
                yield record

    def _called(self, function: Function, lines: Iterable[str]) -> Iterator[Record]:
        """The records of a function; lines that it leaves are traces, or of another format."""
        source = iter(lines)
        left: list[Record | None] = []

        def chunked() -> Iterator[str]:
            while chunk := list(islice(source, CHUNK)):
                left[:] = reversed(function.read(chunk, self._times))
                yield from chunk

        return self._joined(chunked(), lambda line: left.pop())

    def _strict(self, line: str) -> Record | None:
        """What a line says by a known format, not by the general reader."""
        return next((record for read in self._strict_reads if (record := read(line)) is not None), None)

    def _unwrapped(self, name: str, wrapped: Iterable[Wrapped]) -> Iterator[Record]:
        """Records of the lines in a wrapper, which gives the time if they have none."""
        starts: list[tuple[str, str, int]] = []  # Time, stream and number of lines of each not yet read.

        def inner() -> Iterator[str]:
            for time, stream, line, count in wrapped:
                if line and not line.isspace():
                    starts.append((time, stream, count))
                    yield line

        if self._inner is None:
            self._inner = Reader(self._arrival, self._known, self._inner_format)
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


def _nothing(line: str) -> Record | None:
    return None


def _attach(record: Record, trace: list[str]) -> None:
    record.fields["trace"] = "\n".join(trace)
    record.lines += len(trace)


def _mostly(sample: Sequence[_Item], fits: Callable[[_Item], object]) -> bool:
    return bool(sample) and sum(bool(fits(line)) for line in sample) * 2 > len(sample)
