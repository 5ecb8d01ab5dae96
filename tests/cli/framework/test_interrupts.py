"""Signals in tools that run until they are stopped."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.interrupts import shutting_down_on_signal, stopping_at_once

NUMBERS = [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED)]


@pytest.fixture(autouse=True)
def hearing() -> Any:
    """Tests that run in the background of a script would otherwise ignore Ctrl+C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), NUMBERS)
def test_the_first_signal_wakes_and_the_next_ends_at_once(number: Any, code: Any) -> None:
    woken = []
    with shutting_down_on_signal(lambda: woken.append(1)) as shutdown:
        assert not shutdown.is_requested
        os.kill(os.getpid(), number)
        assert shutdown.code == code
        assert woken == [1]
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            os.kill(os.getpid(), number)
    assert woken == [1]


def test_a_signal_stops_at_once_but_finally_blocks_run() -> None:
    done = []
    with pytest.raises(SystemExit) as result, stopping_at_once():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            done.append(1)
    assert result.value.code == Exit.TERMINATED
    assert done == [1]
    with pytest.raises(KeyboardInterrupt), stopping_at_once():
        os.kill(os.getpid(), signal.SIGINT)


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = {number: signal.getsignal(number) for number, _ in NUMBERS}
    with stopping_at_once():
        assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
    assert {number: signal.getsignal(number) for number, _ in NUMBERS} == before


def test_ignored_signals_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with shutting_down_on_signal(lambda: None) as shutdown:
        os.kill(os.getpid(), signal.SIGINT)
        assert not shutdown.is_requested
