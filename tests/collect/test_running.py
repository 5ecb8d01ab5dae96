"""Signals to a collector."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from barnabas.collect import Collector, running
from barnabas.collect.running import run_until_signalled

STOP_PATIENCE_S = 120


class StuckCollector(Collector):
    """Has a line that no broker accepts."""

    def __init__(self) -> None:
        super().__init__("t", [], {})
        self.lines_sent = 1
        self.is_cleaned_up = False

    async def run(self) -> None:
        try:
            await asyncio.sleep(STOP_PATIENCE_S)
        finally:
            self.is_cleaned_up = True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_it_at_once(
    number: signal.Signals, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ANNOUNCE_AFTER_S", 0)
    made: list[StuckCollector] = []

    async def make() -> Collector:
        made.append(StuckCollector())
        for delay_s in (0.1, 0.3):
            asyncio.get_running_loop().call_later(delay_s, os.kill, os.getpid(), number)
        return made[0]

    with pytest.raises(KeyboardInterrupt):
        run_until_signalled(make)
    assert made[0].is_cleaned_up
    assert "stopping when 1 lines are written" in caplog.text
    assert "1 lines are not written" in caplog.text
