"""The expected results, computed from the generator's truth in plain Python, independently of the
pipeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.spark.logs.alerts import Rule
from barnabas.spark.logs.queries import ERROR_AFTER_S
from barnabas.testing.logs.formats import Event
from barnabas.testing.logs.generator import OWNERS


class Count(NamedTuple):
    """One service in one window."""

    start_ms: int
    service: str
    owner: str | None
    lines: int
    requests: int
    errors: int
    duration_ms: int


def counts(events: Iterable[Event], window_ms: int, watermark_ms: int) -> list[Count]:
    """Return the counts of every window that ended before the watermark, in order."""
    results: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for event in events:
        start_ms = event.time_ms // window_ms * window_ms
        if start_ms + window_ms > watermark_ms:
            continue
        sums = results[start_ms, event.service]
        sums[0] += 1
        sums[1] += event.kind == "request"
        sums[2] += event.kind == "error"
        sums[3] += event.duration_ms
    return [
        Count(start_ms, service, OWNERS.get(service), *sums)
        for (start_ms, service), sums in sorted(results.items())
    ]


def failures(events: Iterable[Event], watermark_ms: int) -> set[tuple[str, str, str]]:
    """Return trace, request and error of every failed request whose trace had ended before the watermark."""
    by_trace: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in events:
        if event.kind in ("request", "error"):
            by_trace[event.trace][event.kind] = event
    return {
        (trace, pair["request"].message, pair["error"].message)
        for trace, pair in by_trace.items()
        if len(pair) == 2
        and 0 <= pair["error"].time_ms - pair["request"].time_ms <= ERROR_AFTER_S * 1000
        # Nothing of a trace comes later than an error may.
        and pair["error"].time_ms + ERROR_AFTER_S * 1000 < watermark_ms
    }


def alerts(counted: Iterable[Count], window_ms: int, rule: Rule | None = None) -> list[tuple[int, str, str]]:
    """Return (time, service, raised or cleared) in order, from the last windows at each time."""
    chosen = rule or Rule()
    rates: dict[str, list[float]] = defaultdict(list)
    raised: set[str] = set()
    changes = []
    for count in sorted(counted):
        if count.requests < chosen.least_requests:
            continue
        known = rates[count.service]
        known.append(count.errors / count.requests)
        bad, good = known[-chosen.bad_windows :], known[-chosen.good_windows :]
        when = count.start_ms + window_ms
        if count.service not in raised:
            if len(bad) == chosen.bad_windows and min(bad) >= chosen.bad_rate:
                raised.add(count.service)
                changes.append((when, count.service, "raised"))
        elif len(good) == chosen.good_windows and max(good) <= chosen.good_rate:
            raised.remove(count.service)
            changes.append((when, count.service, "cleared"))
    return changes
