"""The pipeline's results so far, read from its topics."""

from __future__ import annotations

import json
from bisect import insort
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.spark.logs.spans import Spans

if TYPE_CHECKING:
    from barnabas.client import ConsumerRecord
    from barnabas.client.sync import Consumer

# What each topic is, by the setting that names it, and the names by default.
TOPICS = {
    "counts": "logs.counts",
    "alerts": "alerts",
    "failures": "logs.failures",
    "bad": "logs.bad",
    "templates": "logs.templates",
}
# How much is kept in memory, however long the topics are; totals cover everything.
MAX_WINDOWS = 120
MAX_ALERTS = 200
MAX_SAMPLES = 10
MAX_TEMPLATES = 2000
# Beyond this number of services, or of reasons for dead letters, the others are combined.
MAX_NAMES = 1000
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class WindowCount:
    """One service in one window."""

    start: datetime
    end: datetime
    service: str
    owner: str
    lines: int
    requests: int
    errors: int
    warnings: int
    new_templates: int
    duration_ms: float

    @property
    def error_rate(self) -> float | None:
        return self.errors / self.requests if self.requests else None


@dataclass(frozen=True, slots=True)
class Alert:
    """A raised or cleared alert."""

    since: datetime
    service: str
    owner: str
    rule: str
    state: str
    value: float
    error_rate: float | None


@dataclass
class Template:
    """Lines of one kind."""

    service: str
    text: str
    level: str | None
    sample: str
    lines: int = 0
    # When it came up, if that was while the pipeline ran.
    new_since: datetime | None = None
    windows: dict[datetime, int] = field(default_factory=dict)

    def add(self, start: datetime, lines: int, is_new: bool) -> None:
        self.lines += lines
        self.windows[start] = self.windows.get(start, 0) + lines
        if len(self.windows) > MAX_WINDOWS:
            del self.windows[min(self.windows)]
        if is_new and (self.new_since is None or start < self.new_since):
            self.new_since = start

    @property
    def burst(self) -> tuple[datetime, float] | None:
        """The window with the most lines, and how many times the mean of the others it has; None if that is
        nothing unusual."""
        if len(self.windows) < LEAST_WINDOWS:
            return None
        start, most = max(self.windows.items(), key=lambda item: item[1])
        mean = (sum(self.windows.values()) - most) / (len(self.windows) - 1)
        return (start, most / mean) if most >= BURST_LINES and most >= BURST * mean else None


# A burst is a window with this many times the mean of the others, and with this many lines.
BURST, BURST_LINES, LEAST_WINDOWS = 5.0, 20, 4


@dataclass
class Totals:
    """The totals of a service."""

    owner: str
    lines: int = 0
    requests: int = 0
    errors: int = 0
    warnings: int = 0
    duration_ms: float = 0

    def add(self, count: WindowCount) -> None:
        self.lines += count.lines
        self.requests += count.requests
        self.errors += count.errors
        self.warnings += count.warnings
        self.duration_ms += count.duration_ms


@dataclass
class Results:
    """The contents of the topics: totals of everything, and the newest windows and alerts."""

    totals: dict[str, Totals] = field(default_factory=dict)
    alerts: list[Alert] = field(default_factory=list)
    alerts_raised: int = 0
    alerts_cleared: int = 0
    failures: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    bad_samples: list[tuple[str, str]] = field(default_factory=list)
    # Records that the pipeline did not write, by topic.
    foreign: Counter[str] = field(default_factory=Counter)
    templates: dict[tuple[str, str], Template] = field(default_factory=dict)
    # The roles of topics, by name.
    roles: Mapping[str, str] = field(
        default_factory=lambda: {name: role for role, name in TOPICS.items()}, repr=False
    )
    _spans: Spans = field(default_factory=Spans)
    _windows: dict[datetime, list[WindowCount]] = field(default_factory=dict)
    _last_alerts: dict[tuple[str, str], Alert] = field(default_factory=dict)

    def take(self, record: ConsumerRecord) -> None:
        try:
            self._take(record)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            # Anyone may write to a topic; foreign records must not prevent the report.
            self.foreign[record.topic] += 1

    def _take(self, record: ConsumerRecord) -> None:
        value = record.value
        if not isinstance(value, bytes):
            raise TypeError("a record without a value")
        match self.roles.get(record.topic):
            case "counts":
                self.add_count(_count(json.loads(value)))
            case "alerts":
                self.add_alert(_alert(json.loads(value)))
            case "failures":
                self.failures += 1
            case "bad":
                self._take_bad(record, value)
            case "templates":
                self._take_template(json.loads(value))

    def add_count(self, count: WindowCount) -> None:
        name = _limited(count.service, self.totals)
        self.totals.setdefault(name, Totals(count.owner)).add(count)
        self._spans.add(count.start, count.end)
        window = self._windows.setdefault(count.start, [])
        if len(window) < MAX_NAMES:
            window.append(count)
        if len(self._windows) > MAX_WINDOWS:
            del self._windows[min(self._windows)]

    def _take_template(self, row: Mapping[str, Any]) -> None:
        text = _text(row["template"])
        self.add_kind(
            _text(row["service"]), text, row.get("level"), _text(row.get("sample") or text),
            _time(row["start"]), _number(row["lines"]), bool(row.get("is_new")),
        )  # fmt: skip

    def add_kind(
        self,
        service: str,
        text: str,
        level: str | None,
        sample: str,
        start: datetime,
        lines: int,
        is_new: bool,
    ) -> None:
        known = self.templates.get((service, text))
        if known is None:
            if len(self.templates) >= MAX_TEMPLATES:
                return
            known = self.templates[service, text] = Template(service, text, level, sample)
        known.add(start, lines, is_new)

    def add_alert(self, alert: Alert) -> None:
        if alert.state == "raised":
            self.alerts_raised += 1
        else:
            self.alerts_cleared += 1
        insort(self.alerts, alert, key=lambda each: each.since)
        if len(self.alerts) > MAX_ALERTS:
            del self.alerts[0]
        last = self._last_alerts
        name = (alert.service, alert.rule)
        if name not in last and len(last) >= MAX_NAMES:
            return
        if name not in last or last[name].since <= alert.since:
            last[name] = alert

    def _take_bad(self, record: ConsumerRecord, text: bytes) -> None:
        problem = next((value or b"" for key, value in record.headers if key == "problem"), b"unknown")
        self.add_bad(problem.decode(errors="backslashreplace"), text.decode(errors="backslashreplace"))

    def add_bad(self, problem: str, text: str) -> None:
        name = _limited(problem, self.bad)
        self.bad[name] += 1
        if len(self.bad_samples) < MAX_SAMPLES:
            self.bad_samples.append((name, text))

    @property
    def lines(self) -> int:
        """The number of lines counted, in all windows."""
        return sum(totals.lines for totals in self.totals.values())

    @property
    def windows(self) -> int:
        """The number of windows."""
        return self._spans.windows

    @property
    def services(self) -> list[str]:
        return sorted(self.totals)

    def newest_windows(self) -> list[tuple[datetime, list[WindowCount]]]:
        """Return the newest windows, in order, each with its services."""
        return sorted(self._windows.items())

    def raised(self) -> list[Alert]:
        """Return the alerts that are not cleared."""
        return [alert for alert in self._last_alerts.values() if alert.state == "raised"]


def _limited(name: str, known: Mapping[str, object]) -> str:
    """Return the name, or OTHERS if there are too many."""
    return name if name in known or len(known) < MAX_NAMES else OTHERS


class NotRunYetError(UnknownTopicOrPartitionError):
    """Run the pipeline first: it writes the topics that are read here."""


class ResultReader:
    """Reads new committed records of the pipeline's topics."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str] | None = None) -> None:
        from barnabas.client.sync import Consumer

        self.results = Results(
            roles={(settings or {}).get(role, name): role for role, name in TOPICS.items()}
        )
        self._consumer: Consumer = Consumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._assigned = False

    def __enter__(self) -> ResultReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read_new(self) -> Results:
        """Read up to the current end of every topic."""
        from barnabas.client.model import TopicPartition

        consumer = self._consumer
        if not self._assigned:
            # A topic that is requested by name would be waited for if it did not exist.
            there = consumer.list_topics()
            check_topics(there, self.results.roles)
            consumer.assign(
                [
                    TopicPartition(topic, partition.number)
                    for topic in self.results.roles
                    for partition in there[topic].partitions
                ]
            )
            self._assigned = True
        partitions = list(consumer.assignment())
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for record in consumer.poll(timeout_ms=500):
                self.results.take(record)
        return self.results


def check_topics(there: Container[str], wanted: Iterable[str] = tuple(TOPICS.values())) -> None:
    missing = [topic for topic in wanted if topic not in there]
    if missing:
        raise NotRunYetError(f"there is no topic {' and no '.join(missing)}")


def read_results(bootstrap: str, settings: Mapping[str, str] | None = None) -> Results:
    with ResultReader(bootstrap, settings) as reader:
        return reader.read_new()


def _count(row: Mapping[str, Any]) -> WindowCount:
    start, end = _time(row["start"]), _time(row["end"])
    if end <= start:
        raise ValueError(f"a window from {start} to {end}")
    return WindowCount(
        start, end, _text(row["service"]), _text(row.get("owner") or "nobody"),
        _number(row["lines"]), _number(row["requests"]), _number(row["errors"]),
        _number(row.get("warnings", 0)), _number(row.get("new_templates", 0)),
        _amount(row.get("duration_ms")),
    )  # fmt: skip


def _alert(row: Mapping[str, Any]) -> Alert:
    state = row["state"]
    if state not in ("raised", "cleared"):
        raise ValueError(f"state {state!r}")
    owner = _text(row.get("owner") or "nobody")
    rate = row.get("error_rate")
    return Alert(
        _time(row["since"]), _text(row["service"]), owner, _text(row.get("rule") or "error-rate"), state,
        float(row.get("value") or rate or 0.0), None if rate is None else float(rate),
    )  # fmt: skip


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_text(value))
    if time.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return time.astimezone(UTC)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | None) or not 0 <= (value or 0) < 2**63:
        raise TypeError(f"{value!r} is not an amount")
    return float(value or 0)


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise TypeError(f"{value!r} is not a count")
    return value
