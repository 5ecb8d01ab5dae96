"""Offsets for times, where Apache Kafka's answers are not what one would guess."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from barnabas.batch.build import build_empty
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.storage.log.log_reader import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    LogReader,
    TimestampAndOffset,
)
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
    """Its time is still the largest, but no lookup returns an offset for it."""
    log = open_log()
    write(log, 2)
    emptied = build_empty(
        2, 3, leader_epoch=0, max_timestamp=T0 + 99, producer_id=5, producer_epoch=0, base_sequence=0
    )
    log.append_as_follower(emptied, 0)
    log.set_high_watermark(log.end_offset)
    assert log.offset_for_time(MAX_TIMESTAMP) is None
    assert log.offset_for_time(T0 + 1) == TimestampAndOffset(T0 + 1, 1, 0)


@pytest.mark.parametrize("special", [EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP])
def test_the_earliest_offset_has_the_epoch_that_wrote_it_if_it_is_known(special: int) -> None:
    """Records before the first known epoch may be of an older one."""
    disk = MemoryDisk()
    disk.make_folder("/epochs")
    epochs = LeaderEpochs(disk, "/epochs")
    epochs.load()
    reader: Any = None

    def earliest(log_start_offset: int) -> tuple[int, int, int | None]:
        found = LogReader.offset_for_time(reader, special, log_start_offset, 99, epochs)
        assert found is not None
        return found.timestamp, found.offset, found.leader_epoch

    assert earliest(5) == (-1, 5, None)
    epochs.assign(3, 7)
    assert [earliest(start) for start in (6, 7, 8)] == [(-1, 6, None), (-1, 7, 3), (-1, 8, 3)]
    latest = LogReader.offset_for_time(reader, LATEST_TIMESTAMP, 5, 99, epochs)
    assert latest is not None
    assert (latest.timestamp, latest.offset, latest.leader_epoch) == (-1, 99, 3)
    tiered = LogReader.offset_for_time(reader, LATEST_TIERED_TIMESTAMP, 5, 99, epochs)
    assert tiered is not None
    assert (tiered.timestamp, tiered.offset, tiered.leader_epoch) == (-1, -1, -1)
