"""Virtual time, and the trace."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.agenda import JITTER_NS, TRACE_TAIL_LINES, Agenda, Trace


def order_of_ten(seed: int) -> list[int]:
    agenda = Agenda(SeededRandom(seed), Trace())
    order: list[int] = []
    for number in range(10):
        agenda.after(1_000_000, partial(order.append, number))
    while agenda.step():
        pass
    return order


def test_events_at_the_same_time_run_in_seeded_order() -> None:
    assert order_of_ten(1) == order_of_ten(1)
    assert len({tuple(order_of_ten(seed)) for seed in range(5)}) == 5


def test_time_advances_to_the_event_and_never_goes_back() -> None:
    agenda = Agenda(SeededRandom(1), Trace())
    times: list[int] = []
    agenda.after(5_000_000, lambda: agenda.set("past", 0, lambda: times.append(agenda.now_ns)))
    agenda.after(9_000_000, lambda: times.append(agenda.now_ns))
    while agenda.step():
        pass
    assert 5_000_000 <= times[0] < 5_000_000 + 2 * JITTER_NS
    assert 9_000_000 <= times[1] < 9_000_000 + JITTER_NS
    assert agenda.events == 3
    assert agenda.next_ns is None


def test_keyed_events_can_be_moved_and_cancelled() -> None:
    agenda = Agenda(SeededRandom(1), Trace())
    ran: list[str] = []
    agenda.set("a", 10, partial(ran.append, "a early"))
    agenda.set("a", 20_000, partial(ran.append, "a late"))
    agenda.set("b", 10, partial(ran.append, "b"))
    agenda.cancel("b")
    assert len(agenda) == 1
    while agenda.step():
        pass
    assert ran == ["a late"]


def test_the_digest_distinguishes_traces_and_the_tail_is_bounded() -> None:
    one, same, other = Trace(), Trace(), Trace(keep_all=True)
    for number in range(100):
        one.note(f"line {number}")
        same.note(f"line {number}")
        other.note(f"line {number}")
    assert one.digest == same.digest == other.digest
    other.note("more")
    assert one.digest != other.digest
    assert len(one.lines) == TRACE_TAIL_LINES
    assert len(other.lines) == other.count == 101


def test_line_boundaries_are_part_of_the_digest() -> None:
    one, other = Trace(), Trace()
    one.note("ab")
    other.note("a")
    other.note("b")
    assert one.digest != other.digest


def test_a_memory_address_is_not_allowed_in_a_trace() -> None:
    with pytest.raises(ValueError, match="differs from run to run"):
        trace = Trace()
        trace.note(repr(object()))
        trace.digest  # noqa: B018
