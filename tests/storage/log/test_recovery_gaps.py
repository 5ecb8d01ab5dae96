"""Gaps of compaction and lost batches after a crash: distinguished by the checkpoint, never by the current policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.storage.cleaner.cleaner import CleanerOptions
from barnabas.storage.log import log_files
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from tests.storage.logs import T0, end_transaction, open_log, transactional
from tests.storage.worlds import COMPACTED, contents, manager_of, put, steps

A0 = TopicPartition("a", 0)
GAPS = "/data/gap-offset-checkpoint"
CLEANED = "/data/cleaner-offset-checkpoint"
DELETE = replace(COMPACTED, cleanup_compact=False, cleanup_delete=True)
BOTH = replace(COMPACTED, cleanup_delete=True)
# Rounds do not merge the segments: gaps are left between them.
SMALL = replace(COMPACTED, segment_bytes=200)


def cleaned(disk: Disk, options: LogOptions = SMALL) -> LogManager:
    """A log of which the last batches of some segments were cleaned away; more was written since."""
    manager = manager_of(disk, options=options, cleaner=CleanerOptions(backoff_ms=15_000))
    log = manager.get_or_create(A0, is_new=True)
    for number in range(6):
        put(log, (b"only %d" % number, b"x" * 60))
        put(log, (b"often", b"%d" % number))
        log.roll()
    put(log, (b"late", b"1"))
    assert manager.cleaner is not None
    list(steps(manager.cleaner))
    return manager


def ends(log: Log) -> list[tuple[int, int]]:
    return [(segment.base_offset, segment.next_offset()) for segment in log.segments]


def log_of(manager: LogManager) -> Log:
    return manager.logs[A0]


def killed(manager: LogManager, options: LogOptions = DELETE) -> Log:
    """The log as the next process finds it, with this policy."""
    manager.dirs.close()
    return manager_of(manager.disk, options=options).logs[A0]


@pytest.mark.parametrize("policy", [DELETE, COMPACTED, BOTH], ids=["delete", "compact", "both"])
def test_gaps_of_compaction_are_kept_whatever_the_policy_is_today(policy: LogOptions) -> None:
    """F1: a compacted topic was switched to cleanup.policy=delete, and a kill followed before the next
    checkpoint of the recovery points: the gaps passed for lost batches, and all later segments went."""
    disk = MemoryDisk()
    manager = cleaned(disk)
    log = log_of(manager)
    before = contents(log)
    assert any(end < log.segments[i + 1].base_offset for i, (_, end) in enumerate(ends(log)[:-1])), "gaps"
    assert [key for _, key, _ in before].count(b"often") == 1
    assert contents(killed(manager, replace(policy, segment_bytes=200))) == before


def test_a_log_that_was_never_cleaned_has_no_gaps_even_if_it_is_compacted_today() -> None:
    """F13: a batch was lost at the end of a rolled segment of a compacted log, and the hole was kept; the
    batch was a marker, and its producer was taken for what it had been before."""
    disk = MemoryDisk()
    manager = manager_of(disk, options=DELETE)
    log = manager.get_or_create(A0, is_new=True)
    for number in range(3):
        put(log, (b"%d" % number, b"v"), (b"k", b"v"))
        put(log, (b"%d" % number, b"w"), (b"k", b"w"))
        log.roll()
    second = f"{log.folder}/{log_files.of_offset(4, log_files.LOG)}"
    lost = disk.open(second)
    lost.truncate(lost.size // 2)
    assert killed(manager, COMPACTED).end_offset == 6


def test_what_is_lost_behind_the_cleaned_part_is_a_loss() -> None:
    disk = MemoryDisk()
    manager = cleaned(disk)
    log = log_of(manager)
    end, gaps_end = log.end_offset, log.gaps_end
    assert gaps_end == log.active.base_offset
    active, size = log.active.path(log_files.LOG), log.active.size
    put(log, (b"x", b"1"))
    log.roll()
    put(log, (b"y", b"2"))
    disk.open(active).truncate(size)
    assert killed(manager).end_offset == end


@pytest.mark.parametrize("content", [None, b"", b"0\n1\nnonsense\n"], ids=["missing", "empty", "damaged"])
def test_without_a_word_on_gaps_all_is_kept(content: bytes | None) -> None:
    """F1: a directory of Apache Kafka, of an earlier release, or with a damaged checkpoint."""
    disk = MemoryDisk()
    manager = cleaned(disk)
    before = contents(log_of(manager))
    disk.remove(GAPS)
    disk.remove(CLEANED)
    if content is not None:
        disk.write_atomically(GAPS, content)
    again = killed(manager)
    assert contents(again) == before
    # From now on it is known: what follows has no gaps.
    assert disk.read_bytes(GAPS) == b"0\n1\na 0 %d\n" % again.end_offset


def test_the_cleaners_checkpoint_is_believed_too() -> None:
    """F1: Apache Kafka has cleaned a log here since, and knows no checkpoint of gaps."""
    disk = MemoryDisk()
    manager = cleaned(disk)
    before = contents(log_of(manager))
    disk.write_atomically(GAPS, b"0\n0\n")
    assert contents(killed(manager)) == before


def test_a_damaged_checkpoint_of_the_cleaner_says_nothing() -> None:
    disk = MemoryDisk()
    manager = cleaned(disk)
    before = contents(log_of(manager))
    disk.write_atomically(GAPS, b"0\n0\n")
    disk.write_atomically(CLEANED, b"0\nmany\n")
    assert contents(killed(manager)) == before


def test_gaps_are_noted_before_they_are_made() -> None:
    """F1: whenever the power fails during the first cleaning, the log has all its keys."""
    for number in range(1, 200):
        disk = SimulatedDisk(SeededRandom(number))
        manager = manager_of(disk, options=SMALL)
        log = manager.get_or_create(A0, is_new=True)
        for count in range(4):
            put(log, (b"only %d" % count, b"x" * 60))
            put(log, (b"often", b"%d" % count))
            log.roll()
        log.flush()
        assert manager.cleaner is not None
        for _ in range(number):
            manager.cleaner.step()
        after = disk.fork(SeededRandom(number))
        after.power_loss()
        after.restart()
        again = log_of(manager_of(after, options=DELETE))
        last = {key: value for _, key, value in contents(again)}
        assert last == {**{b"only %d" % count: b"x" * 60 for count in range(4)}, b"often": b"3"}, number
        if manager.cleaner.last_stats is not None:
            return
    raise AssertionError("the cleaning never ended")


def test_gaps_are_noted_by_the_next_round_if_this_one_is_given_up() -> None:
    """F1: a round that is given up before the checkpoint is written has noted nothing."""
    disk = MemoryDisk()
    manager = manager_of(disk, options=SMALL)
    log, cleaner = manager.get_or_create(A0, is_new=True), manager.cleaner
    for count in range(4):
        put(log, (b"often", b"%d" % count))
        log.roll()
    log.flush()
    assert cleaner is not None
    while log.gaps_end == 0:
        cleaner.step()
    assert cleaner.pending_sync is not None
    cleaner.abort(A0)
    assert log.gaps_end == 0
    assert disk.read_bytes(GAPS) == b"0\n0\n"
    list(steps(cleaner))
    assert disk.read_bytes(GAPS) == b"0\n1\na 0 4\n"


def test_a_record_is_never_removed_for_one_that_a_power_loss_can_take() -> None:
    """F13: the marker of a transaction lay unflushed in the active segment; the cleaner took the transaction's
    records for committed and removed earlier values, which had been flushed; the power failed."""
    for seed in range(8):
        disk = SimulatedDisk(SeededRandom(seed))
        manager = manager_of(disk)
        log = manager.get_or_create(A0, is_new=True)
        put(log, (b"k", b"old"))
        transactional(log, 5, 0)
        log.roll()
        log.flush()
        end_transaction(log, 5, commit=True)
        log.set_high_watermark(log.end_offset)
        assert manager.cleaner is not None
        list(steps(manager.cleaner))
        assert contents(log) == [(1, b"k", b"v" * 10)]
        disk.power_loss()
        disk.restart()
        again = log_of(manager_of(disk))
        assert again.end_offset == 3
        assert again.first_unstable_offset is None


def test_a_follower_notes_gaps_before_it_takes_them_over() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk, options=DELETE)
    log = manager.get_or_create(A0, is_new=True)
    log.append_as_follower(build([Record(0, T0, b"a", b"1")], leader_epoch=0), 0)
    assert disk.read_bytes(GAPS) == b"0\n0\n"
    for offset in (7, 20):
        log.roll()
        log.append_as_follower(build([Record(offset, T0, b"a", b"1")], leader_epoch=0), 0)
    assert disk.read_bytes(GAPS) == b"0\n1\na 0 %d\n" % (2**63 - 1)
    assert [offset for offset, _, _ in contents(killed(manager))] == [0, 7, 20]


def test_a_new_partition_knows_nothing_of_the_gaps_of_the_old_one() -> None:
    disk = MemoryDisk()
    manager = cleaned(disk)
    assert b"a 0" in disk.read_bytes(GAPS)
    manager.delete(A0)
    assert disk.read_bytes(GAPS) == b"0\n0\n"
    assert manager.get_or_create(A0, is_new=True).gaps_end == 0


def test_a_truncated_log_has_no_gaps_beyond_its_end() -> None:
    log = open_log()
    for offset in (0, 5, 9):
        log.append_as_follower(build([Record(offset, T0, b"a", b"1")], leader_epoch=0), 0)
    log.truncate_to(7)
    assert log.gaps_end == 7
