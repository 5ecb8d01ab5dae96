"""The ring of recent events: bounded, ordered, and cheap for commits."""

from __future__ import annotations

from barnabas.coordinator.events import (
    COMMITS_WINDOW_MS,
    MAX_EVENTS_PER_ID,
    MAX_IDS,
    MAX_REASON_CHARACTERS,
    Event,
    EventKind,
    Events,
)


def test_events_of_an_id_are_ordered() -> None:
    events = Events()
    events.note("g", 10, EventKind.MEMBER_JOINED, who="m1", reason="rebalance enforced by user")
    events.note("other", 15, EventKind.MEMBER_JOINED, who="m9")
    events.note("g", 20, EventKind.GENERATION, generation=3, count=2)
    assert events.of("g") == (
        Event(10, EventKind.MEMBER_JOINED, "m1", "rebalance enforced by user", until_ms=10),
        Event(20, EventKind.GENERATION, generation=3, count=2, until_ms=20),
    )
    assert events.of("unknown") == ()
    assert events.names() == ("other", "g")


def test_the_oldest_event_is_removed_first() -> None:
    events = Events()
    for at_ms in range(MAX_EVENTS_PER_ID + 5):
        events.note("g", at_ms, EventKind.MEMBER_LEFT)
    kept = events.of("g")
    assert len(kept) == MAX_EVENTS_PER_ID
    assert (kept[0].at_ms, kept[-1].at_ms) == (5, MAX_EVENTS_PER_ID + 4)


def test_the_least_recently_active_id_is_removed_first() -> None:
    events = Events()
    for number in range(MAX_IDS):
        events.note(f"g{number}", number, EventKind.MEMBER_JOINED)
    events.note("g0", MAX_IDS, EventKind.MEMBER_LEFT)
    events.note("new", MAX_IDS, EventKind.MEMBER_JOINED)
    assert len(events) == MAX_IDS
    assert events.of("g1") == ()
    assert len(events.of("g0")) == 2


def test_commits_are_aggregated() -> None:
    events = Events()
    for at_ms in range(0, COMMITS_WINDOW_MS, 100):
        events.committed("g", at_ms, 3)
    (event,) = events.of("g")
    assert event == Event(
        0, EventKind.OFFSETS_COMMITTED, count=3 * COMMITS_WINDOW_MS // 100, until_ms=COMMITS_WINDOW_MS - 100
    )


def test_continuous_commits_have_one_event_per_window() -> None:
    events = Events()
    for at_ms in range(0, 3 * COMMITS_WINDOW_MS, 1_000):
        events.committed("g", at_ms, 1)
    assert [event.at_ms for event in events.of("g")] == [0, COMMITS_WINDOW_MS, 2 * COMMITS_WINDOW_MS]


def test_aggregation_ends_with_its_window_or_another_event() -> None:
    events = Events()
    events.committed("g", 0, 1)
    events.committed("g", COMMITS_WINDOW_MS, 1)
    events.note("g", COMMITS_WINDOW_MS + 1, EventKind.REBALANCE_STARTED)
    events.committed("g", COMMITS_WINDOW_MS + 2, 1)
    assert [event.kind for event in events.of("g")] == [
        EventKind.OFFSETS_COMMITTED,
        EventKind.OFFSETS_COMMITTED,
        EventKind.REBALANCE_STARTED,
        EventKind.OFFSETS_COMMITTED,
    ]


def test_aggregation_ends_when_the_clock_goes_back() -> None:
    events = Events()
    events.committed("g", 1_000, 1)
    events.committed("g", 500, 1)
    assert [event.at_ms for event in events.of("g")] == [1_000, 500]


def test_returned_events_do_not_change() -> None:
    events = Events()
    events.committed("g", 0, 1)
    returned = events.of("g")
    events.committed("g", 1, 1)
    assert returned[0].count == 1


def test_a_long_reason_is_truncated() -> None:
    events = Events()
    events.note("g", 0, EventKind.MEMBER_LEFT, reason="x" * 40_000)
    assert len(events.of("g")[0].reason) == MAX_REASON_CHARACTERS
    assert events.of("g")[0].reason.endswith("x…")


def test_the_events_of_an_id_can_be_discarded() -> None:
    events = Events()
    events.note("g", 0, EventKind.GROUP_DELETED)
    events.forget("g")
    events.forget("g")
    assert events.of("g") == ()
