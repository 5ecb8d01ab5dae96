"""Offsets for times, where Apache Kafka's answers are not what one would guess."""

from __future__ import annotations

import dataclasses

import pytest

from barnabas.batch.build import build_empty
from barnabas.storage.log.log_reader import MAX_TIMESTAMP, TimestampAndOffset
from tests.storage.logs import SMALL, T0, HandClock, open_log, write


def test_the_newest_of_records_that_the_broker_stamped_is_the_first_of_its_batch() -> None:
    """All of them have the same time; Apache Kafka 4.1.0 names the first."""
    clock = HandClock()
    log = open_log(options=dataclasses.replace(SMALL, message_timestamp_type="LogAppendTime"), clock=clock)
    write(log, 3, 4)
    clock.now_ms += 5
    write(log, 6)
    assert log.offset_for_time(MAX_TIMESTAMP) == TimestampAndOffset(T0 + 5, 7, 0)


def test_the_batch_of_an_offset_is_not_looked_for_where_that_would_wait_for_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = open_log()
    write(log, 3, 4)
    log.set_high_watermark(log.end_offset)
    size = log.active.size
    kind = type(log.active.slice(0, 1))
    monkeypatch.setattr(kind, "is_resident", lambda part: False)
    monkeypatch.setattr(type(log.active), "locate", None)
    found = log.read(0, 10 * size, upper_bound=log.end_offset, min_one_batch=True, may_wait=False)
    assert found.slice is None
    assert found.cold is not None
    assert found.cold.length == size
    monkeypatch.undo()
    again = log.read(0, 10 * size, upper_bound=log.end_offset, min_one_batch=True)
    assert again.length == size


def test_a_batch_that_compaction_emptied_has_no_newest_record() -> None:
    """Its time is still the largest, but nobody can be given an offset for it."""
    log = open_log()
    write(log, 2)
    emptied = build_empty(
        2, 3, leader_epoch=0, max_timestamp=T0 + 99, producer_id=5, producer_epoch=0, base_sequence=0
    )
    log.append_as_follower(emptied, 0)
    log.set_high_watermark(log.end_offset)
    assert log.offset_for_time(MAX_TIMESTAMP) is None
    assert log.offset_for_time(T0 + 1) == TimestampAndOffset(T0 + 1, 1, 0)
