"""What the pipeline has found out so far, read back from its topics.

What lives here: records into rows.  What may not: showing them (view, report), Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client import ConsumerRecord
    from barnabas.client.sync import Consumer

MAX_SAMPLES = 10


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
    duration_ms: int

    @property
    def error_rate(self) -> float | None:
        return self.errors / self.requests if self.requests else None


@dataclass(frozen=True, slots=True)
class Alert:
    """A service became bad, or good again."""

    since: datetime
    service: str
    owner: str
    state: str
    error_rate: float


@dataclass
class Results:
    """Everything that is in the topics."""

    counts: list[WindowCount] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    failures: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    bad_samples: list[tuple[str, str]] = field(default_factory=list)

    def take(self, record: ConsumerRecord) -> None:
        value = record.value
        assert isinstance(value, bytes)
        match record.topic:
            case "logs.counts":
                self.counts.append(_count(json.loads(value)))
            case "alerts":
                self.alerts.append(_alert(json.loads(value)))
            case "logs.failures":
                self.failures += 1
            case "logs.bad":
                self._take_bad(record, value)

    def _take_bad(self, record: ConsumerRecord, text: bytes) -> None:
        problem = next(
            (value or b"" for key, value in record.headers if key == "problem"), b"unknown"
        ).decode()
        self.bad[problem] += 1
        if len(self.bad_samples) < MAX_SAMPLES:
            self.bad_samples.append((problem, text.decode(errors="backslashreplace")))

    @property
    def services(self) -> list[str]:
        return sorted({count.service for count in self.counts})

    def raised(self) -> list[Alert]:
        """The alerts that nobody has cleared yet."""
        last = {alert.service: alert for alert in sorted(self.alerts, key=lambda alert: alert.since)}
        return [alert for alert in last.values() if alert.state == "raised"]


class ResultReader:
    """Reads what is new in the pipeline's topics; only what was committed."""

    def __init__(self, bootstrap: str) -> None:
        from barnabas.client.sync import Consumer

        self.results = Results()
        self._consumer: Consumer = Consumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._assigned = False

    def __enter__(self) -> ResultReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read_new(self) -> Results:
        """Up to the present end of every topic."""
        from barnabas.client.model import TopicPartition

        consumer = self._consumer
        if not self._assigned:
            found = [
                TopicPartition(topic, one.number)
                for topic in ("logs.counts", "alerts", "logs.failures", "logs.bad")
                for one in consumer.partitions_for(topic)
            ]
            consumer.assign(found)
            self._assigned = True
        partitions = list(consumer.assignment())
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(one) < ends[one] for one in partitions):
            for record in consumer.poll(timeout_ms=500):
                self.results.take(record)
        return self.results


def read_results(bootstrap: str) -> Results:
    with ResultReader(bootstrap) as reader:
        return reader.read_new()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _count(row: Mapping[str, Any]) -> WindowCount:
    return WindowCount(
        _time(row["start"]), _time(row["end"]), row["service"], row.get("owner") or "nobody", row["lines"],
        row["requests"], row["errors"], row["duration_ms"],
    )  # fmt: skip


def _alert(row: Mapping[str, Any]) -> Alert:
    return Alert(
        _time(row["since"]), row["service"], row.get("owner") or "nobody", row["state"], row["error_rate"]
    )


def windows_of(counts: list[WindowCount]) -> Iterator[tuple[datetime, list[WindowCount]]]:
    """The windows in order, each with its services."""
    by_start: dict[datetime, list[WindowCount]] = {}
    for count in counts:
        by_start.setdefault(count.start, []).append(count)
    yield from sorted(by_start.items())
