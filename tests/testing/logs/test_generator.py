"""The generator's lines, and its truth about them."""

from __future__ import annotations

import json
from typing import Any

from barnabas.testing.logs.formats import Event, Json
from barnabas.testing.logs.generator import HOPELESS_MS, PATHS, PROBLEMS, SERVICES, Generator, Shares

START_MS = 1_790_000_000_000


def made(count: int, seed: int = 1, **options: Any) -> tuple[Generator, list[bytes]]:
    generator = Generator(seed, start_ms=START_MS, **options)
    lines = [line.text for line in generator.lines(count)]
    return generator, lines + [line.text for line in generator.rest()]


def test_a_seed_gives_the_same_lines_again() -> None:
    assert made(2_000)[1] == made(2_000)[1]
    assert made(2_000)[1] != made(2_000, seed=2)[1]


def test_the_truth_counts_every_line() -> None:
    generator, lines = made(20_000, settled_lines=1_000)
    truth = generator.truth
    assert truth.lines == len(lines)
    # Every event is one line, and some are two.
    assert len(lines) == len(truth.events) + truth.hopeless + truth.twice + len(truth.bad)
    good = [text for text in lines if text not in set(truth.bad)]
    assert len(good) - len(set(good)) == truth.twice
    for share, count in ((0.01, len(truth.bad)), (0.02, truth.twice), (0.03, truth.late)):
        assert 0.5 * share < count / len(lines) < 1.5 * share
    assert {event.service for event in truth.events} == set(SERVICES)
    assert max(event.time_ms for event in truth.events) == truth.newest_ms


def test_hopeless_lines_are_older_than_everything_and_come_late() -> None:
    generator, lines = made(20_000, settled_lines=10_000, shares=Shares(hopeless=0.1))
    hopeless = [text for text in lines if b'"time":"' in text and json_ms(text) < START_MS]
    assert hopeless
    assert min(lines.index(text) for text in hopeless) >= 10_000
    assert all(event.time_ms >= START_MS for event in generator.truth.events)
    assert {json_ms(text) for text in hopeless} == {START_MS - HOPELESS_MS}


def json_ms(text: bytes) -> int:
    try:
        time = json.loads(text)["time"]
    except ValueError:
        return START_MS
    return START_MS if "?" in time else int(_event(time))


def _event(time: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(time).timestamp() * 1000


def test_every_failed_request_has_its_error() -> None:
    truth = made(5_000)[0].truth
    failed = {event.trace for event in truth.events if event.kind == "request" and event.status == 500}
    errors = {event.trace for event in truth.events if event.kind == "error"}
    assert failed == errors != set()


def test_times_are_written_to_the_millisecond() -> None:
    event = Event(START_MS + 7, "cart", "cart-1", "INFO", "note", "t", 0, 0, "m")
    assert json.loads(Json.write(event))["time"].endswith(".007Z")


def test_bad_lines_are_of_three_kinds() -> None:
    """Truncated, not UTF-8, and garbled."""
    generator, lines = made(8_000, shares=Shares(bad=0.2))
    bad = generator.truth.bad
    assert set(bad) <= set(lines)
    binary = [text for text in bad if text.startswith(b"\xff\xfe")]
    garbled = [text for text in bad if text.startswith(b"?")]
    truncated = [text for text in bad if len(text) < 20 and not text.startswith(b"?")]
    for kind in (binary, garbled, truncated):
        assert 0.2 < len(kind) / len(bad) < 0.45
    assert {len(text) for text in binary} == {22}
    assert len(set(binary)) + len({*garbled, *truncated}) == len(set(bad))


def test_requests_have_a_status_and_a_duration_and_errors_a_problem() -> None:
    events = made(20_000)[0].truth.events
    assert len({event.id for event in events}) == len(events)
    for event in events:
        if event.kind == "request":
            assert event.level == "INFO"
            assert (event.status, event.duration_ms >= 2_000) in ((200, False), (500, True))
            assert event.duration_ms >= 1
        else:
            assert (event.status, event.duration_ms) == (0, 0)
        if event.kind == "error":
            assert (event.level, event.message in PROBLEMS) == ("ERROR", True)
        else:
            assert event.message.removeprefix("GET ") in PATHS
        if event.kind == "note":
            assert event.level in ("INFO", "WARN")
    requests = [event for event in events if event.kind == "request"]
    notes = [event for event in events if event.kind == "note"]
    assert 0.5 < len(requests) / (len(requests) + len(notes)) < 0.7
    assert 0.2 < sum(event.level == "WARN" for event in notes) / len(notes) < 0.5


def test_trouble_comes_in_bursts() -> None:
    """Within minutes after the first failures of a service many more follow; elsewhere they are rare."""
    quiet = made(20_000, shares=Shares(failing_in_trouble=0.02))[0].truth.events
    bursts = made(20_000)[0].truth.events

    def failing(events: list[Event]) -> int:
        return sum(event.status == 500 for event in events)

    assert failing(bursts) > 1.5 * failing(quiet) > 0
