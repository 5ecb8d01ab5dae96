"""Retention by time, size and log start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.retention import before_log_start, expire, over_size, too_old
from tests.storage.logs import SMALL, T0, HandClock, batch, files, offsets, open_log
from tests.storage.worlds import bases

HOUR_MS = 3_600_000


def log_of(options: LogOptions, *hours: int) -> Log:
    """A segment of three records for each hour, the last one active."""
    clock = HandClock(T0 + 100 * HOUR_MS)
    log = open_log(options=options, clock=clock)
    for hour in hours:
        if log.active.size:
            log.roll()
        log.append_as_leader(batch(3, time=T0 + hour * HOUR_MS), 0)
    log.set_high_watermark(log.end_offset)
    return log


def test_segments_older_than_retention_ms_go() -> None:
    # M-E3
    log = log_of(replace(SMALL, retention_ms=10 * HOUR_MS), 1, 50, 89, 95)
    # The youngest record of a segment decides: at T0 + 89 h + 2 ms, ten hours and a bit ago.
    assert [s.base_offset for s in too_old(log, T0 + 99 * HOUR_MS + 2)] == [0, 3]
    assert [s.base_offset for s in too_old(log, T0 + 99 * HOUR_MS + 3)] == [0, 3, 6]
    assert expire(log, T0 + 99 * HOUR_MS + 3) == 3
    assert bases(log) == [9]
    assert log.log_start_offset == 9
    assert offsets(log) == [9, 10, 11]


def test_an_old_segment_behind_a_young_one_stays() -> None:
    log = log_of(replace(SMALL, retention_ms=10 * HOUR_MS), 1, 95, 2, 96)
    assert expire(log, T0 + 100 * HOUR_MS) == 1
    assert bases(log) == [3, 6, 9]


def test_when_all_is_expired_the_log_rolls_first_and_ends_empty() -> None:
    # M-E3
    log = log_of(replace(SMALL, retention_ms=HOUR_MS), 1, 2, 3)
    assert expire(log, T0 + 100 * HOUR_MS) == 3
    assert bases(log) == [9]
    assert (log.log_start_offset, log.end_offset, log.size) == (9, 9, 0)
    assert expire(log, T0 + 1000 * HOUR_MS) == 0, "an empty active segment is left alone"


def test_minus_one_keeps_for_ever() -> None:
    # M-E3
    log = log_of(replace(SMALL, retention_ms=-1, retention_bytes=-1), 1, 2, 3)
    assert expire(log, T0 + 10**9 * HOUR_MS) == 0
    assert bases(log) == [0, 3, 6]


def test_records_without_a_time_go_by_the_file() -> None:
    log = open_log(options=replace(SMALL, retention_ms=HOUR_MS))
    log.append_as_follower(batch(1, time=-1), 0)
    log.roll()
    log.set_high_watermark(1)
    log.segments[0].files.set_modified_ms(T0)
    assert too_old(log, T0 + HOUR_MS) == []
    assert [s.base_offset for s in too_old(log, T0 + HOUR_MS + 1)] == [0]


def test_the_log_stays_as_large_as_retention_bytes() -> None:
    # M-E3
    log = log_of(replace(SMALL, retention_ms=-1), 1, 2, 3, 4)
    one = log.segments[0].size
    for limit, removed in ((4 * one, 0), (4 * one - 1, 0), (3 * one, 1), (2 * one + 1, 1), (0, 4)):
        log.set_options(replace(log.options, retention_bytes=limit))
        assert len(over_size(log)) == removed, limit
    log.set_options(replace(log.options, retention_bytes=2 * one))
    assert expire(log, T0) == 2
    assert log.size == 2 * one


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    log = log_of(replace(SMALL, retention_ms=HOUR_MS, retention_bytes=0), 1, 2, 3)
    log.set_high_watermark(5)
    assert expire(log, T0 + 100 * HOUR_MS) == 1
    assert bases(log) == [3, 6]
    assert log.log_start_offset <= log.high_watermark


def test_segments_before_the_log_start_go_even_if_nothing_else_may() -> None:
    # M-E3
    log = log_of(
        replace(SMALL, cleanup_delete=False, cleanup_compact=True, retention_ms=1, retention_bytes=0), 1, 2, 3
    )
    assert expire(log, T0 + 100 * HOUR_MS) == 0
    log.advance_log_start(5)
    assert [s.base_offset for s in before_log_start(log)] == [0]
    assert expire(log, T0 + 100 * HOUR_MS) == 1
    assert (bases(log), log.log_start_offset) == ([3, 6], 5)
    log.advance_log_start(9)
    assert expire(log, T0 + 100 * HOUR_MS) == 1, "the active segment stays although its records are deleted"
    assert bases(log) == [6]


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_files_go_after_file_delete_delay_ms(delay_ms: int) -> None:
    # M-E3
    log = log_of(replace(SMALL, retention_ms=HOUR_MS, file_delete_delay_ms=delay_ms), 1, 99)
    expire(log, T0 + 100 * HOUR_MS)
    assert "00000000000000000000.log.deleted" in files(log.disk)
    (deletion,) = log.take_file_deletions()
    assert deletion.due_ms == log.clock.monotonic_ns() // 10**6 + delay_ms
    deletion.run()
    assert not any(name.endswith(".deleted") for name in files(log.disk))
