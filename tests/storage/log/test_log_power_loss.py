"""Power is lost after every single operation of a log's life: what was flushed is there, what is read is valid."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Operation
from barnabas.storage.log import log_files
from barnabas.storage.log.log import Log
from barnabas.storage.segment.segment import Segment
from tests.storage.logs import SMALL, end_transaction, open_log, read_all, transactional, write

TINY = dataclasses.replace(SMALL, segment_bytes=300)


@dataclass
class Promise:
    """What must be there after a power loss now."""

    log: Log | None = None
    # Offset -> bytes of the batches that were flushed.
    flushed: dict[int, bytes] = dataclasses.field(default_factory=dict)
    recovery_point: int = 0
    log_start_offset: int = 0

    def keep(self, log: Log) -> None:
        """A flush has returned."""
        self.log = log
        self.recovery_point = log.recovery_point
        self.flushed = {
            one.base_offset: one.copy() for one in read_all(log) if one.last_offset < log.recovery_point
        }


def check(disk: SimulatedDisk, promise: Promise, seed: int) -> None:
    twin = disk.fork(SeededRandom(seed))
    twin.power_loss()
    twin.restart()
    log = open_log(twin, TINY, clean=False, recovery_point=promise.recovery_point)
    found = {one.base_offset: one.copy() for one in read_all(log)}  # checks every CRC
    for offset, data in promise.flushed.items():
        assert found.get(offset) == data, f"the flushed batch at {offset} is lost"
    write(log, 2, epoch=20)
    log.flush()
    log.close()
    again = open_log(twin, TINY)
    assert {one.base_offset for one in read_all(again)} >= {log.end_offset - 2, *promise.flushed}


def life(log: Log, promise: Promise) -> None:
    """Append, roll, flush, transactions, truncation, cleaning."""
    write(log, 2, 2)
    log.flush()
    promise.keep(log)
    write(log, *[2] * 4)
    transactional(log, 5, 0, count=2)
    end_transaction(log, 5, commit=False)
    log.flush(log.active.base_offset)
    promise.keep(log)
    write(log, *[2] * 3, epoch=1)
    log.flush()
    promise.keep(log)
    # What is cut is no longer promised; the manager writes a lower recovery point down before it answers.
    promise.flushed = {offset: data for offset, data in promise.flushed.items() if offset < 12}
    promise.recovery_point = 12
    log.truncate_to(12)
    write(log, *[2] * 5, epoch=2)
    log.flush()
    promise.keep(log)
    clean(log, promise)
    write(log, 2, epoch=2)
    log.flush()
    promise.keep(log)


def clean(log: Log, promise: Promise) -> None:
    """Two segments become one without their first batches, as a cleaner makes it."""
    group = log.segments[:2]
    new = Segment.create(log.disk, log.clock, log.folder, 0, log.options, suffix=log_files.CLEANED)
    dropped = {segment.base_offset for segment in group}
    promise.flushed = {offset: data for offset, data in promise.flushed.items() if offset not in dropped}
    for segment in group:
        for _, data, headers in segment.pieces():
            for header in headers[1:]:
                start = header.position - headers[0].position
                new.append(data[start : start + header.size], header.last_offset)
    new.become_inactive()
    new.sync()
    log.local.replace_segments([new], group)


@pytest.mark.parametrize("seed", range(1, 7))
def test_power_loss_after_every_operation_keeps_what_was_flushed(seed: int) -> None:  # M-E4
    disk = SimulatedDisk(SeededRandom(seed))
    disk.make_folder("/data")
    disk.sync_folder("/")
    promise = Promise()
    checks = 0

    def lose_power(operation: Operation) -> None:
        nonlocal checks
        checks += 1
        check(disk, promise, seed * 100_000 + operation.number)

    disk.on_operation = lose_power
    life(open_log(disk, TINY), promise)
    assert checks > 150
