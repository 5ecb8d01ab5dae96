"""What is kept of the pipeline's topics, and what is not ours in them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.main import explain
from barnabas.spark.logs import report, results, spans
from barnabas.spark.logs.results import OTHERS, NotRunYetError, Results, check_topics
from barnabas.spark.logs.spans import Spans
from barnabas.spark.logs.view import summary, view

START = datetime(2026, 1, 1, tzinfo=UTC)
LENGTH = timedelta(seconds=10)


def record(topic: str, value: Any) -> Any:
    data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return SimpleNamespace(topic=topic, value=data, headers=())


def count(window: int, service: str = "cart", **more: object) -> Any:
    start = START + window * LENGTH
    row = {"start": start.isoformat(), "end": (start + LENGTH).isoformat(), "service": service}
    return record("logs.counts", row | {"lines": 3, "requests": 2, "errors": 1, "duration_ms": 8.5} | more)


def alert(minute: int, state: str, service: str = "cart", **more: object) -> Any:
    since = (START + timedelta(minutes=minute)).isoformat()
    row = {"service": service, "state": state, "since": since, "error_rate": 0.5}
    return record("alerts", row | more)


def test_the_newest_windows_are_kept_and_totals_are_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_WINDOWS", 4)
    found = Results()
    # One partition is read far ahead of another.
    for service in ("cart", "login"):
        for window in range(20):
            found.take(count(window, service))
    kept = found.newest_windows()
    assert [start for start, _ in kept] == [START + window * LENGTH for window in range(16, 20)]
    assert all([one.service for one in counts] == ["cart", "login"] for _, counts in kept)
    assert (found.lines, found.windows, found.services) == (120, 20, ["cart", "login"])
    assert (
        '>60<td class="">40<td class="">20<td class="">0<td class="">50.0 %<td class="">4 ms'
        in report.page(found)
    )


def test_the_newest_alerts_are_kept_and_totals_are_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_ALERTS", 3)
    found = Results()
    found.take(alert(0, "raised", "login"))
    for minute in range(20, 0, -1):
        found.take(alert(minute, "cleared" if minute % 2 else "raised"))
    assert [one.since.minute for one in found.alerts] == [18, 19, 20]
    assert (found.alerts_raised, found.alerts_cleared) == (11, 10)
    # Also of what was raised long ago and never cleared.
    assert [(one.service, one.since.minute) for one in found.raised()] == [("login", 0), ("cart", 20)]


def test_services_beyond_the_limit_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_NAMES", 2)
    found = Results()
    for number in range(5):
        found.take(count(0, f"service-{number}"))
    assert found.services == [OTHERS, "service-0", "service-1"]
    assert (found.lines, found.windows, len(found.newest_windows()[0][1])) == (15, 1, 2)


@pytest.mark.parametrize(
    "foreign",
    [
        record("alerts", b"hello"),
        record("alerts", b"\xff"),
        record("alerts", None),
        record("alerts", [1]),
        record("alerts", {"service": "cart"}),
        record("alerts", b"[" * 100_000),
        alert(0, "asleep"),
        alert(0, "raised", service=3),  # type: ignore[arg-type]
        alert(0, "raised", since="2026-01-01T10:00:00"),
        alert(0, "raised", since="0001-01-01T00:00:00+14:00"),
        alert(0, "raised", error_rate="high"),
        count(0, lines="3"),
        count(0, requests=-1),
        count(0, end=START.isoformat()),
        record("logs.failures", None),
    ],
)
def test_a_foreign_record_is_left_out_and_reported(foreign: Any) -> None:
    found = Results()
    found.take(count(0, lines=0))
    found.take(alert(0, "raised"))
    found.take(foreign)
    assert found.foreign == {foreign.topic: 1}
    assert (found.lines, found.alerts_raised, found.failures) == (0, 1, 0)
    assert f"has not written were left out: 1 in {foreign.topic}." in report.page(found)
    assert summary(found)[-1] == "1 records that the pipeline has not written, left out"
    assert view(found, [], 0, 80)


def test_a_missing_topic_says_to_run_the_pipeline() -> None:
    check_topics(results.TOPICS.values())
    with pytest.raises(NotRunYetError) as raised:
        check_topics(["alerts", "logs.bad"])
    line, code = explain(raised.value)
    assert line == (
        "barnabas: there is no topic logs.counts and no logs.failures and no logs.templates "
        "(Run the pipeline first: it writes the topics that are read here.)"
    )
    assert code == 5


def test_an_invalid_report_path_is_reported_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ReadError(Exception):
        pass

    def read(*_: object) -> Results:
        raise ReadError

    monkeypatch.setattr("barnabas.spark.logs.report.html_page.read_results", read)
    settings, old = {"bootstrap": "nowhere:1"}, tmp_path / "old.html"
    old.write_text("old", "utf-8")
    for bad in (tmp_path, old / "page.html"):
        with pytest.raises(OSError, match=r"Is a directory|Not a directory|File exists"):
            report.write_report(settings, str(bad))
    # Nothing is left, and nothing lost, if the topics cannot be read.
    for path in (old, tmp_path / "new.html"):
        with pytest.raises(ReadError):
            report.write_report(settings, str(path))
    assert old.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [old]


def test_windows_are_counted_once_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Spans()
    for window in [5, 3, 4, 4, 9, 0, 3, 5, 9, 8, 0]:
        found.add(START + window * LENGTH, START + (window + 1) * LENGTH)
    # 0, 3 to 5, 8 to 9.
    assert (found.windows, len(found)) == (6, 3)
    monkeypatch.setattr(spans, "MAX_SPANS", 3)
    found.add(START + 20 * LENGTH, START + 21 * LENGTH)
    assert (found.windows, len(found)) == (7, 3)


def test_topics_are_assigned_once_and_read_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reading:
        """A consumer that begins again whenever it is assigned."""

        def __init__(self, **_: object) -> None:
            self.waiting: list[Any] = []

        def list_topics(self) -> dict[str, Any]:
            return {
                topic: SimpleNamespace(partitions=[SimpleNamespace(number=0)])
                for topic in results.TOPICS.values()
            }

        def assign(self, partitions: list[Any]) -> None:
            self.assigned, self.read = partitions, 0

        def assignment(self) -> list[Any]:
            return self.assigned

        def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
            return {one: len(self.waiting) if one.topic == "logs.counts" else 0 for one in partitions}

        def position(self, partition: Any) -> int:
            return self.read if partition.topic == "logs.counts" else 0

        def poll(self, *, timeout_ms: int) -> list[Any]:
            found, self.read = self.waiting[self.read :], len(self.waiting)
            return found

        def close(self) -> None:
            self.waiting.clear()

    monkeypatch.setattr("barnabas.client.sync.Consumer", Reading)
    with results.ResultReader("nowhere:1") as reader:
        consumer: Any = reader._consumer
        consumer.waiting += [count(0), count(1)]
        assert reader.read_new().lines == 6
        assert {(one.topic, one.partition) for one in consumer.assigned} == {
            (topic, 0) for topic in results.TOPICS.values()
        }
        consumer.waiting.append(count(2))
        assert reader.read_new().lines == 9
    assert consumer.waiting == [], "closed"
