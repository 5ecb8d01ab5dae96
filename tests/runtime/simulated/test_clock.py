"""The simulated clock: drift, jumps, and the conversion to true time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.agenda import Agenda, Trace
from barnabas.runtime.simulated.clock import START_WALL_MS, SimulatedClock


def make_agenda() -> Agenda:
    return Agenda(SeededRandom(1), Trace())


def test_without_drift_it_shows_true_time() -> None:
    agenda = make_agenda()
    clock = SimulatedClock(agenda)
    agenda.now_ns = 5_000_000
    assert clock.monotonic_ns() == 5_000_000
    assert clock.wall_ms() == START_WALL_MS + 5


def test_a_fast_clock_gains() -> None:
    agenda = make_agenda()
    clock = SimulatedClock(agenda, drift_ppm=200)
    agenda.now_ns = 10_000_000_000
    assert clock.monotonic_ns() == 10_002_000_000


def test_a_jump_moves_wall_time_only() -> None:
    agenda = make_agenda()
    clock = SimulatedClock(agenda)
    clock.jump(-3_600_000)
    assert clock.wall_ms() == START_WALL_MS - 3_600_000
    assert clock.monotonic_ns() == 0


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(-999_999, 10**6)), max_size=10))
def test_monotonic_time_never_goes_back_whatever_the_drift(changes: list[tuple[int, int]]) -> None:
    agenda = make_agenda()
    clock = SimulatedClock(agenda)
    shown = clock.monotonic_ns()
    for elapsed_ns, drift_ppm in changes:
        agenda.now_ns += elapsed_ns
        assert clock.monotonic_ns() >= shown
        clock.set_drift(drift_ppm)
        assert clock.monotonic_ns() >= shown
        shown = clock.monotonic_ns()


@given(st.integers(-900_000, 10**6), st.integers(0, 10**12), st.integers(0, 10**12))
def test_true_time_is_the_first_at_which_the_clock_shows_it(
    drift_ppm: int, start_ns: int, ahead_ns: int
) -> None:
    agenda = make_agenda()
    agenda.now_ns = start_ns
    clock = SimulatedClock(agenda, drift_ppm=drift_ppm)
    target_ns = clock.monotonic_ns() + ahead_ns
    agenda.now_ns = clock.true_ns(target_ns)
    assert clock.monotonic_ns() >= target_ns
    agenda.now_ns -= 1
    assert ahead_ns == 0 or clock.monotonic_ns() < target_ns


def test_a_clock_cannot_be_stopped() -> None:
    with pytest.raises(ValueError, match="would stop the clock"):
        SimulatedClock(make_agenda()).set_drift(-1_000_000)
