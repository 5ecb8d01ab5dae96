"""The expected results, by hand."""

from __future__ import annotations

from barnabas.spark.logs.queries import ERROR_AFTER_S
from barnabas.testing.logs.formats import Event
from barnabas.testing.logs.truth import Count, counts, failures

WINDOW_MS = 1_000


def event(
    time_ms: int, kind: str = "note", *, service: str = "cart", trace: str = "t", duration_ms: int = 0
) -> Event:
    return Event(time_ms, service, f"{service}-{time_ms}", "INFO", kind, trace, 0, duration_ms, f"a {kind}")


def test_counts_are_of_windows_before_the_watermark() -> None:
    events = [
        # Of a window that is not over: it does not hide later lines of earlier windows.
        event(3_000, "request", duration_ms=99),
        event(1_999, "request", duration_ms=5),
        event(1_000, "request", duration_ms=7),
        event(1_500, "error"),
        event(2_000, "note"),
        event(1_200, "note", service="unknown"),
        event(2_999, "note"),
    ]
    expected = [
        Count(1_000, "cart", "team-a", 3, 2, 1, 12),
        Count(1_000, "unknown", None, 1, 0, 0, 0),
        Count(2_000, "cart", "team-a", 2, 0, 0, 0),
    ]
    assert counts(events, WINDOW_MS, 3_000) == expected
    assert counts(events, WINDOW_MS, 2_999) == expected[:2]
    assert counts(events, WINDOW_MS, 1_999) == []


def test_a_failure_is_a_request_with_an_error_soon_after() -> None:
    soon_ms = ERROR_AFTER_S * 1_000
    events = []
    for trace, delay_ms in (("at once", 0), ("soon", soon_ms), ("late", soon_ms + 1), ("before", -1)):
        events += [event(5_000, "request", trace=trace), event(5_000 + delay_ms, "error", trace=trace)]
    events += [event(5_000, "request", trace="good"), event(5_000, "error", trace="alone")]
    events += [event(5_000, "note", trace="good")]
    assert failures(events, 10**15) == {(trace, "a request", "a error") for trace in ("at once", "soon")}
    assert failures(events, 0) == set()
