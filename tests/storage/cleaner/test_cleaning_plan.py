"""What may be cleaned, how dirty a log is, and which segments are rewritten together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.storage.cleaner.cleaning_plan import (
    dirty_range,
    group_segments,
    overdue_ms,
    plan,
    segments_between,
)
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LONG_MAX
from tests.storage.logs import T0, transactional
from tests.storage.worlds import COMPACTED, bases, compacted_log, put

ONE = [(b"k", b"v")]


def log_of_four() -> Log:
    """Segments 0, 1, 2, 3 with one record each, and the empty active segment 4."""
    return compacted_log([ONE] * 4)


def test_the_dirty_part_starts_at_the_checkpoint_or_the_log_start() -> None:
    log = log_of_four()
    assert dirty_range(log, None, T0).first_dirty_offset == 0
    assert dirty_range(log, 3, T0).first_dirty_offset == 3
    log.advance_log_start(2)
    assert dirty_range(log, None, T0).first_dirty_offset == 2


@pytest.mark.parametrize("checkpoint", [1, 9])
def test_a_checkpoint_outside_of_the_log_is_corrected(checkpoint: int) -> None:
    """Records were deleted beyond it, or the log lost its end."""
    log = log_of_four()
    log.advance_log_start(2)
    found = dirty_range(log, checkpoint, T0)
    assert (found.first_dirty_offset, found.correct_checkpoint) == (2, True)
    assert not dirty_range(log, 4, T0).correct_checkpoint


def test_the_active_segment_is_never_cleaned() -> None:
    log = log_of_four()
    put(log, *ONE, *ONE)
    assert dirty_range(log, None, T0).first_uncleanable_offset == 4


def test_nothing_beyond_the_last_stable_offset_is_cleaned() -> None:
    log = compacted_log([ONE])
    log.set_options(replace(COMPACTED, message_timestamp_after_max_ms=LONG_MAX))
    transactional(log, 7, 0)
    log.roll()
    put(log, *ONE)
    log.roll()
    assert log.last_stable_offset == 1
    assert dirty_range(log, None, T0).first_uncleanable_offset == 1
    # A segment is cleaned as a whole or not at all.
    target = plan(log, dirty_range(log, None, T0), T0)
    assert (target.first_uncleanable_offset, target.cleanable_bytes) == (1, log.segments[0].size)


def test_nothing_beyond_the_high_watermark_is_cleaned() -> None:
    log = log_of_four()
    log.set_high_watermark(2)
    assert dirty_range(log, None, T0).first_uncleanable_offset == 2


def test_min_compaction_lag_protects_young_segments() -> None:
    log = compacted_log(options=replace(COMPACTED, min_compaction_lag_ms=1000))
    for age in (5000, 1000, 999, 3000):
        put(log, *ONE, time=T0 - age)
        log.roll()
    assert dirty_range(log, None, T0).first_uncleanable_offset == 2


def test_max_compaction_lag_makes_a_clean_log_due() -> None:
    """KIP-354."""
    log = log_of_four()
    log.set_options(replace(COMPACTED, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0))
    assert overdue_ms(log, 0, T0 + 1000) == 0
    assert overdue_ms(log, 0, T0 + 1500) == 500
    assert not plan(log, dirty_range(log, None, T0), T0).is_due
    assert plan(log, dirty_range(log, None, T0), T0 + 1001).is_due
    assert not plan(log, dirty_range(log, 4, T0), T0 + 1001).is_due, "nothing is dirty"


def test_the_dirty_ratio_decides() -> None:
    log = log_of_four()
    target = plan(log, dirty_range(log, 3, T0), T0)
    assert (target.clean_bytes, target.cleanable_bytes) == (3 * log.segments[0].size, log.segments[0].size)
    assert target.dirty_ratio == 0.25
    for ratio, due in ((0.24, True), (0.25, False)):
        log.set_options(replace(COMPACTED, min_cleanable_dirty_ratio=ratio))
        assert plan(log, dirty_range(log, 3, T0), T0).is_due is due


def test_an_empty_log_is_not_due() -> None:
    log = compacted_log()
    target = plan(log, dirty_range(log, None, T0), T0)
    assert (target.total_bytes, target.dirty_ratio, target.is_due) == (0, 0.0, False)


def test_segments_between_two_offsets() -> None:
    log = compacted_log([[(b"a", b"1"), (b"b", b"2")]] * 3)
    assert bases(log) == [0, 2, 4, 6]
    for start, end, found in (
        (0, 6, [0, 2, 4]),
        (3, 5, [2, 4]),
        (3, 4, [2]),
        (3, 3, []),
        (5, 3, []),
        (0, 99, [0, 2, 4, 6]),
    ):
        assert [s.base_offset for s in segments_between(log, start, end)] == found


def test_neighbours_are_grouped_up_to_the_size_of_a_segment() -> None:
    log = log_of_four()
    segments = list(log.segments)[:4]
    one = segments[0].size

    def grouped(max_bytes: int, max_index_bytes: int = 1000, stop: int = 4) -> list[list[int]]:
        groups = group_segments(segments, max_bytes, max_index_bytes, stop)
        return [[s.base_offset for s in group] for group in groups]

    assert grouped(4 * one) == [[0, 1, 2, 3]]
    assert grouped(4 * one - 1) == [[0, 1, 2], [3]]
    assert grouped(2 * one) == [[0, 1], [2, 3]]
    assert grouped(1) == [[0], [1], [2], [3]]
    # Each has one entry of twelve bytes in its time index.
    assert grouped(4 * one, max_index_bytes=24) == [[0, 1], [2, 3]]
    # Offsets of a segment are stored in four bytes.
    assert grouped(4 * one, stop=2**31) == [[0, 1, 2, 3]]
    assert grouped(4 * one, stop=2**31 + 1) == [[0, 1, 2], [3]]
