"""Log files into the results that the pipeline would have, without a broker and without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from barnabas.logs.files import NotALogError, Tally, parse
from barnabas.logs.records import UNKNOWN, Record
from barnabas.spark.logs.alerts import Service
from barnabas.spark.logs.config import Config
from barnabas.spark.logs.parsing import NO_FORMAT, at_ms, duration_of, status_of
from barnabas.spark.logs.results import MAX_TEMPLATES, Alert, Results, WindowCount

# Windows grow until there are so few of them.
MOST_WINDOWS = 96
WINDOWS_S = (
    10,
    30,
    60,
    300,
    600,
    1_800,
    3_600,
    10_800,
    21_600,
    43_200,
    86_400,
    604_800,
    2_592_000,
    31_536_000,
)
# A kind of line is new if it came up in the last part of the lines of its file.
OLD = 0.9
MOST_FILES = 10_000


@dataclass(slots=True)
class _Count:
    lines: int = 0
    requests: int = 0
    errors: int = 0
    warnings: int = 0
    new: int = 0
    duration_ms: float = 0.0

    def add(self, other: _Count) -> None:
        self.lines += other.lines
        self.requests += other.requests
        self.errors += other.errors
        self.warnings += other.warnings
        self.new += other.new
        self.duration_ms += other.duration_ms


@dataclass(slots=True)
class _Kind:
    level: str | None
    sample: str
    is_new: bool = False
    lines: dict[int, int] = field(default_factory=dict)


class FileResults:
    """Counts by window and service; the windows become longer as the files cover more time."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known = config.known()
        self._owners = dict(config.owners)
        self._step = 0
        self._counts: dict[tuple[int, str], _Count] = {}
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._windows: set[int] = set()
        self.results = Results()

    def add(self, path: str) -> Tally:
        """Take in the lines of a file."""
        tally = Tally()
        arrival_ms = round(os.stat(path).st_mtime * 1000)
        before, kinds = 0, dict[tuple[str, str], int]()
        for record, template in parse(path, tally, self._known):
            before += 1
            if record.format == UNKNOWN:
                self.results.add_bad(NO_FORMAT, record.message)
                continue
            service = self._config.service_of(record, path)
            kinds.setdefault((service, template), before)
            self._add(record, template, service, at_ms(record.time, arrival_ms))
        for name, first in kinds.items():
            if first > OLD * before and name in self._kinds:
                self._kinds[name].is_new = True
        return tally

    def _add(self, record: Record, template: str, service: str, time_ms: int) -> None:
        start = self._start(time_ms)
        count = self._counts.get((start, service))
        if count is None:
            count = self._counts[start, service] = _Count()
        level, fields = record.level, record.fields
        count.lines += record.lines
        if status_of(fields.get("status")) is not None:
            count.requests += 1
            count.duration_ms += duration_of(fields) or 0.0
        if level in ("ERROR", "FATAL"):
            count.errors += 1
        elif level == "WARN":
            count.warnings += 1
        kind = self._kinds.get((service, template))
        if kind is None:
            if len(self._kinds) >= MAX_TEMPLATES:
                return
            kind = self._kinds[service, template] = _Kind(level, record.message)
        kind.lines[start] = kind.lines.get(start, 0) + record.lines

    def _start(self, time_ms: int) -> int:
        start = time_ms // 1000 // WINDOWS_S[self._step] * WINDOWS_S[self._step]
        if start not in self._windows:
            self._windows.add(start)
            while len(self._windows) > MOST_WINDOWS and self._step + 1 < len(WINDOWS_S):
                self._widen()
                start = time_ms // 1000 // WINDOWS_S[self._step] * WINDOWS_S[self._step]
        return start

    def _widen(self) -> None:
        self._step += 1
        length = WINDOWS_S[self._step]
        counts: dict[tuple[int, str], _Count] = {}
        for (start, service), count in self._counts.items():
            counts.setdefault((start // length * length, service), _Count()).add(count)
        self._counts = counts
        for kind in self._kinds.values():
            lines: dict[int, int] = {}
            for start, number in kind.lines.items():
                wide = start // length * length
                lines[wide] = lines.get(wide, 0) + number
            kind.lines = lines
        self._windows = {start // length * length for start in self._windows}

    def finished(self) -> Results:
        """The results, with the alerts that the rules give."""
        results, length = self.results, timedelta(seconds=WINDOWS_S[self._step])
        for (service, text), kind in self._kinds.items():
            first = min(kind.lines)
            for start, lines in kind.lines.items():
                is_new = kind.is_new and start == first
                results.add_kind(service, text, kind.level, kind.sample, _time(start), lines, is_new)
                if is_new and (start, service) in self._counts:
                    self._counts[start, service].new += 1
        by_service: dict[str, list[WindowCount]] = {}
        for (start, service), count in sorted(self._counts.items()):
            window = WindowCount(
                _time(start), _time(start) + length, service, self._owners.get(service, "nobody"),
                count.lines, count.requests, count.errors, count.warnings, count.new, count.duration_ms,
            )  # fmt: skip
            results.add_count(window)
            by_service.setdefault(service, []).append(window)
        for service, windows in by_service.items():
            for alert in self._alerts(service, windows, length):
                results.add_alert(alert)
        return results

    def _alerts(self, name: str, windows: Sequence[WindowCount], length: timedelta) -> Iterator[Alert]:
        service = Service(name, self._config.rules, None)
        for window in windows:
            row = {attribute: getattr(window, attribute) for attribute in window.__slots__}
            for change in (*service.expire(window.start, length), *service.take(row)):
                _, owner, rule, state, since, value, rate = change
                yield Alert(since, name, owner or "nobody", rule, state, value or 0.0, rate)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def log_files(paths: Sequence[str], skipped: Callable[[str, str], None]) -> Iterator[str]:
    """The files, and those within folders, oldest first; `skipped` hears of those in folders that are none of
    lines of text."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        found = [place for place in Path(path).rglob("*") if place.is_file()]
        if len(found) > MOST_FILES:
            raise NotALogError(f"has {len(found)} files: name fewer (at most {MOST_FILES:,} are read)")
        for place in sorted(found, key=lambda place: (place.stat().st_mtime, str(place))):
            reason = _no_log(place)
            if reason is None:
                yield str(place)
            elif reason:
                skipped(str(place), reason)


def _no_log(place: Path) -> str | None:
    """Why a file of a folder is left out; nothing need be said of an empty one."""
    from barnabas.logs.files import read_records

    try:
        next(read_records(str(place)), None)
    except NotALogError as error:
        return str(error) if place.stat().st_size else ""
    except OSError as error:
        return str(error.strerror)
    return None
