"""Producers after a crash: what the batches say counts, whatever was remembered of earlier ones."""

from __future__ import annotations

from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.log.log import Log
from tests.storage.logs import batch, end_transaction, open_log, transactional, write


def idempotent(log: Log, producer_id: int, sequence: int, count: int = 1) -> None:
    data = batch(count, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    log.append_as_leader(data, 0)
    log.set_high_watermark(log.end_offset)


def test_a_batch_in_the_log_counts_more_than_what_is_remembered_of_its_producer() -> None:
    """F13: the records of an open transaction were deleted, and a crash had the log forget it.  Its producer
    wrote outside of a transaction; the next crash had the deleted records read again, the batch contradicted
    them, and the producer was taken as it had been before it: resent, the batch would be appended twice."""
    disk = MemoryDisk()
    log = open_log(disk)
    transactional(log, 7, 0, count=2)
    log.set_high_watermark(2)
    log.advance_log_start(2)
    log = open_log(disk, clean=False, log_start_offset=2)
    idempotent(log, 7, 0, count=4)
    again = open_log(disk, clean=False, log_start_offset=2)
    assert again.producers.entries[7].last_sequence == 3
    assert again.first_unstable_offset is None, "no transaction is open"
    assert again.append_as_leader(batch(4, producer_id=7, producer_epoch=0, base_sequence=0), 0).duplicate


def test_a_forgotten_producer_leaves_no_transaction_behind() -> None:
    log = open_log()
    transactional(log, 7, 0)
    transactional(log, 8, 0)
    log.producers.forget(7)
    log.producers.forget(7)
    assert list(log.producers.entries) == [8]
    assert log.producers.first_unstable_offset == 1


def test_a_log_start_beyond_the_end_hides_no_aborted_transaction() -> None:
    """F13: records were deleted up to an offset, the checkpoint was written, and the power took the end of the
    log: it never was at that offset, and starts with its first segment.  But its producers had been read from
    that offset on, and the transaction that began before was not found to be aborted."""
    disk = MemoryDisk()
    log = open_log(disk)
    transactional(log, 7, 0, count=4)
    log.roll()
    end_transaction(log, 7, commit=False)
    write(log, 2)
    log.flush()
    aborted = log.aborted_transactions(0, 7)
    assert [one[:3] for one in aborted] == [(7, 0, 4)]
    again = open_log(disk, clean=False, recovery_point=4, log_start_offset=9, high_watermark=7)
    assert (again.log_start_offset, again.end_offset) == (0, 7)
    assert again.aborted_transactions(0, 7) == aborted


def test_a_follower_learns_of_the_producers_among_others_in_one_fetch() -> None:
    leader, follower = open_log(MemoryDisk()), open_log(MemoryDisk())
    write(leader, 2)
    idempotent(leader, 7, 0, count=3)
    write(leader, 1)
    transactional(leader, 8, 0)
    fetched = leader.read(0, 1 << 20, upper_bound=leader.end_offset).slice
    assert fetched is not None
    follower.append_as_follower(fetched.read(), 0)
    assert follower.end_offset == leader.end_offset
    assert {name: entry.last_sequence for name, entry in follower.producers.entries.items()} == {7: 2, 8: 0}
    assert follower.first_unstable_offset == leader.first_unstable_offset == 6
