"""Offsets for times, where Apache Kafka's answers are not what one would guess."""

from __future__ import annotations

import dataclasses

from barnabas.batch.build import build_empty
from barnabas.storage.reading import MAX_TIMESTAMP, TimestampAndOffset
from tests.storage.logs import SMALL, T0, HandClock, open_log, write


def test_the_newest_of_records_that_the_broker_stamped_is_the_first_of_its_batch() -> None:
    """All of them have the same time; Apache Kafka 4.1.0 names the first."""
    clock = HandClock()
    log = open_log(options=dataclasses.replace(SMALL, message_timestamp_type="LogAppendTime"), clock=clock)
    write(log, 3, 4)
    clock.now_ms += 5
    write(log, 6)
    assert log.offset_for_time(MAX_TIMESTAMP) == TimestampAndOffset(T0 + 5, 7, 0)


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
