"""The progress of opening logs: how often it is logged, and how it is stopped."""

from __future__ import annotations

import logging

import pytest

from barnabas.storage.progress import REPORT_INTERVAL_NS, LoadingStopped, LoadingWatch


class StepClock:
    now_ns = 5

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0


def test_progress_is_logged_once_in_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.storage.progress")
    clock = StepClock()
    watch = LoadingWatch(clock)
    watch.begin(40)
    watch.opened = 7

    def lines_after(ns: int) -> list[str]:
        caplog.clear()
        clock.now_ns += ns
        watch.reading("/data/t-0/0.log", 25, 100)
        return [record.getMessage() for record in caplog.records]

    line = "recovery: 7 of 40 logs are open; /data/t-0/0.log: 25 %"
    assert lines_after(REPORT_INTERVAL_NS - 1) == []
    assert lines_after(1) == [line]
    assert lines_after(REPORT_INTERVAL_NS - 1) == []
    assert lines_after(1) == [line]
    watch.reading("/data/t-0/0.log", 0, 0)
    clock.now_ns += REPORT_INTERVAL_NS
    caplog.clear()
    watch.reading("/data/t-0/0.log", 0, 0)
    assert caplog.records[0].getMessage().endswith(": 100 %")
    watch.begin(3)
    assert (watch.opened, watch.total) == (0, 3)


def test_a_stopped_loading_ends_at_the_next_report() -> None:
    watch = LoadingWatch(StepClock())
    watch.check()
    watch.stop()
    for report in (watch.check, lambda: watch.reading("/data/t-0/0.log", 1, 2)):
        with pytest.raises(LoadingStopped):
            report()
