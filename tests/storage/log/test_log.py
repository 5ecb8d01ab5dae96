from __future__ import annotations

import dataclasses
import errno
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.records import Record
from barnabas.batch.view import batches
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.failure import DirectoryFull, StorageFailure
from barnabas.storage.log.appends import UnexpectedAppendOffset
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_files import LOG
from barnabas.storage.log.log_reader import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TimestampAndOffset,
)
from barnabas.storage.producers.producer_append import AppendOrigin
from tests.storage.logs import (
    FOLDER,
    SMALL,
    T0,
    HandClock,
    batch,
    batches_of,
    end_transaction,
    files,
    offsets,
    open_log,
    read_all,
    records,
    transactional,
    write,
)

TINY = dataclasses.replace(SMALL, segment_bytes=300)


def code_of(log: Log, data: bytearray, **how: Any) -> ErrorCode:
    before = (log.end_offset, log.size, len(log.segments), log.producers.entries.keys())
    with pytest.raises(KafkaError) as error:
        log.append_as_leader(data, 0, **how)
    assert (log.end_offset, log.size, len(log.segments), log.producers.entries.keys()) == before
    return error.value.code


# Appending


def test_a_leader_numbers_batches_and_stamps_its_epoch_in_place() -> None:
    log = open_log()
    write(log, 3)
    data = batch(2)
    result = log.append_as_leader(data, 5)
    assert (result.first_offset, result.last_offset, result.bytes_appended) == (3, 4, len(data))
    assert (result.max_timestamp, result.log_append_time_ms) == (T0 + 1, -1)
    (own,) = batches(data)
    assert (own.base_offset, own.leader_epoch) == (3, 5)
    assert read_all(log)[-1].copy() == data
    assert log.epochs.entries == [(0, 0), (5, 3)]


def test_bytes_and_parts_of_a_buffer_are_taken_too() -> None:
    log = open_log()
    log.append_as_leader(bytes(batch(1)), 0)
    frame = bytearray(b"head" + batch(2) + b"cut short")
    log.append_as_leader(memoryview(frame)[4:], 0)
    assert offsets(log) == [0, 1, 2]


@pytest.mark.trap
def test_offsets_are_dense() -> None:
    """Trap 13: offsets dense except where compaction or control records explain a gap."""
    log = open_log(options=TINY)
    write(log, 1, 5, 2, 1, 9, 3)
    transactional(log, 1, 0, count=2)
    end_transaction(log, 1, commit=True)
    write(log, 2)
    assert offsets(log) == list(range(log.end_offset))
    assert log.end_offset == 26


def test_log_append_time_is_the_brokers() -> None:
    clock = HandClock(T0 + 5000)
    log = open_log(options=dataclasses.replace(SMALL, message_timestamp_type="LogAppendTime"), clock=clock)
    result = log.append_as_leader(batch(2), 0)
    assert (result.max_timestamp, result.log_append_time_ms) == (T0 + 5000, T0 + 5000)
    assert [record.timestamp for one in read_all(log) for record in one.records()] == [T0 + 5000] * 2


def test_a_topics_codec_is_applied() -> None:
    log = open_log(options=dataclasses.replace(SMALL, compression_type="gzip"))
    log.append_as_leader(batch(50), 0)
    (one,) = read_all(log)
    assert one.codec is Codec.GZIP
    assert offsets(log) == list(range(50))


@pytest.mark.trap
def test_refusals_of_a_batch() -> None:
    """Trap 20: MESSAGE_TOO_LARGE, INVALID_RECORD (no key on a compacted topic), INVALID_TIMESTAMP."""
    log = open_log(
        options=dataclasses.replace(
            SMALL,
            max_message_bytes=500,
            segment_bytes=600,
            cleanup_compact=True,
            message_timestamp_after_max_ms=1000,
        )
    )
    write(log, 2)
    assert code_of(log, batch(1, size=500)) is ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(log, build([Record(0, T0, None, b"v")])) is ErrorCode.INVALID_RECORD
    assert code_of(log, batch(1, time=T0 + 1001)) is ErrorCode.INVALID_TIMESTAMP
    damaged = batch(1)
    damaged[-1] ^= 1
    assert code_of(log, damaged) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(log, build(records([b"v"]), base_offset=0, control=True)) is ErrorCode.INVALID_RECORD
    many = batch(1, size=300) + batch(1, size=300)
    assert code_of(log, many, origin=AppendOrigin.COORDINATOR) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert offsets(log) == [0, 1]


def test_a_follower_takes_batches_as_they_are() -> None:
    leader, follower = open_log(), open_log()
    write(leader, 3, 2, epoch=4)
    data = b"".join(one.copy() for one in read_all(leader))
    result = follower.append_as_follower(data + data[:30], 4)
    assert (result.first_offset, result.last_offset, result.bytes_appended) == (0, 4, len(data))
    assert b"".join(one.copy() for one in read_all(follower)) == data
    assert follower.epochs.entries == leader.epochs.entries == [(4, 0)]
    with pytest.raises(UnexpectedAppendOffset) as error:
        follower.append_as_follower(data, 4)
    assert (error.value.first_offset, error.value.last_offset) == (0, 4)


def test_a_follower_leaves_out_what_a_later_leader_wrote() -> None:
    leader, follower = open_log(), open_log()
    write(leader, 2, epoch=4)
    write(leader, 2, epoch=5)
    data = b"".join(one.copy() for one in read_all(leader))
    follower.append_as_follower(data, 4)
    assert offsets(follower) == [0, 1]
    assert follower.append_as_follower(data[len(data) // 2 :], 4).bytes_appended == 0


def test_a_follower_refuses_damage_and_disorder() -> None:
    leader, follower = open_log(), open_log()
    write(leader, 2, 2)
    first, second = (one.copy() for one in read_all(leader))
    with pytest.raises(KafkaError, match="Out of order offsets"):
        follower.append_as_follower(second + first, 0)
    with pytest.raises(KafkaError, match="corrupt") as error:
        follower.append_as_follower(first + second[:-1] + b"?", 0)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.end_offset == 0


def test_a_compacted_leaders_gaps_are_kept_and_far_offsets_roll() -> None:
    follower = open_log()
    for first in (10, 20, 20 + 2**31):
        follower.append_as_follower(build([Record(first, T0, b"k", b"v")], leader_epoch=0), 0)
    assert offsets_from(follower, 10) == [10, 20, 20 + 2**31]
    assert [segment.base_offset for segment in follower.segments] == [0, 20 + 2**31]


def offsets_from(log: Log, offset: int) -> list[int]:
    log.set_high_watermark(log.end_offset)
    log.advance_log_start(offset)
    return offsets(log)


def test_the_raft_leader_brings_its_own_offsets_and_epoch() -> None:
    log = open_log()
    log.append_as_leader(batch(2, leader_epoch=3), 3, origin=AppendOrigin.RAFT_LEADER)
    wrong = build([Record(2, T0, b"k", b"v")], leader_epoch=2)
    assert code_of(log, wrong, origin=AppendOrigin.RAFT_LEADER) is ErrorCode.INVALID_RECORD
    assert offsets(log) == [0, 1]


# Producers


def idempotent(sequence: int, epoch: int = 0, count: int = 1, producer_id: int = 9) -> bytearray:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_a_duplicate_is_answered_with_the_offsets_it_has() -> None:
    log = open_log()
    write(log, 4)
    first = log.append_as_leader(idempotent(0, count=3), 0)
    log.append_as_leader(idempotent(3), 0)
    again = log.append_as_leader(idempotent(0, count=3), 0)
    assert again.duplicate
    assert (again.first_offset, again.last_offset, again.bytes_appended) == (first.first_offset, 6, 0)
    assert log.end_offset == 8


def test_gaps_and_old_epochs_are_refused() -> None:
    log = open_log()
    log.append_as_leader(idempotent(0, epoch=1), 0)
    assert code_of(log, idempotent(2, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(log, idempotent(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_as_leader(idempotent(1, epoch=1), 0)


@pytest.mark.trap
@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
def test_sequence_numbers_survive_a_restart(clean: bool) -> None:
    """Trap 14: producer sequence state survives restart, leader change and partition moves."""
    disk = MemoryDisk()
    log = open_log(disk, TINY)
    for sequence in range(10):
        log.append_as_leader(idempotent(sequence), 0)
    if clean:
        log.flush()
        log.close()
    again = open_log(disk, TINY, clean=clean)
    assert again.append_as_leader(idempotent(9), 0).duplicate
    assert code_of(again, idempotent(11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    follower = open_log()
    follower.append_as_follower(b"".join(one.copy() for one in read_all(again)), 0)
    for sequence in range(5, 10):  # the new leader knows the last five batches
        assert follower.append_as_leader(idempotent(sequence), 1).last_offset == sequence
    follower.append_as_leader(idempotent(10), 1)


def test_a_transaction_needs_the_coordinators_word() -> None:  # KIP-890
    log = open_log()
    first = batch(1, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    assert code_of(log, bytearray(first)) is ErrorCode.INVALID_TXN_STATE
    guard = log.start_verification(9, 0, 0)
    assert guard is not None
    assert log.start_verification(9, 0, 0) is guard
    log.append_as_leader(bytearray(first), 0, verification=guard)
    assert log.start_verification(9, 1, 0) is None
    second = batch(1, producer_id=9, producer_epoch=0, base_sequence=1, transactional=True)
    log.append_as_leader(second, 0)
    stale = guard
    end_transaction(log, 9, commit=False)
    third = batch(1, producer_id=9, producer_epoch=0, base_sequence=2, transactional=True)
    assert code_of(log, third, verification=stale) is ErrorCode.INVALID_TXN_STATE


def test_the_last_stable_offset_waits_for_open_transactions_and_for_replication() -> None:
    log = open_log()
    write(log, 1)
    transactional(log, 1, 0)
    transactional(log, 2, 0)
    log.set_high_watermark(3)
    assert log.last_stable_offset == 1
    end_transaction(log, 1, commit=True)
    assert log.last_stable_offset == 1
    log.set_high_watermark(4)
    assert log.last_stable_offset == 2
    end_transaction(log, 2, commit=False)
    log.set_high_watermark(5)
    assert log.last_stable_offset == 5


def test_a_zombie_coordinator_is_fenced() -> None:
    log = open_log()
    transactional(log, 1, 0)
    end_transaction(log, 1, commit=True, coordinator_epoch=3)
    transactional(log, 1, 1)
    with pytest.raises(KafkaError) as error:
        end_transaction(log, 1, commit=True, coordinator_epoch=2)
    assert error.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


# Reading


@pytest.mark.trap
def test_an_offset_within_a_batch_gets_the_whole_batch() -> None:
    """Trap 5: a fetch offset in the middle of a batch returns the whole batch."""
    log = open_log(options=TINY)
    write(log, 4, 4, 4, 4)
    for offset in range(16):
        first = batches_of(log.read(offset, 10_000, upper_bound=16))[0]
        assert first.base_offset == offset // 4 * 4


@pytest.mark.trap
def test_a_first_batch_larger_than_the_limit_comes_all_the_same() -> None:
    """Trap 6: first batch larger than max.bytes is returned all the same (progress guarantee)."""
    log = open_log()
    write(log, 20, 20)
    whole = log.read(0, 1, upper_bound=40, min_one_batch=True)
    assert [one.base_offset for one in batches_of(whole)] == [0]
    assert not whole.first_batch_incomplete
    cut = log.read(0, 100, upper_bound=40, min_one_batch=False)
    assert cut.length == 100
    assert cut.first_batch_incomplete
    assert log.read(0, 0, upper_bound=40, min_one_batch=False).slice is None


def test_nothing_at_or_above_the_bound_is_read() -> None:
    log = open_log(options=TINY)
    write(log, 2, 2, 2, 2, 2, 2)
    for bound in range(0, 13, 2):
        for offset in range(12):
            got = batches_of(log.read(offset, 10_000, upper_bound=bound))
            assert all(one.last_offset < bound for one in got)
            assert bool(got) == (offset < bound)
    assert log.read(12, 100, upper_bound=12).slice is None


def test_a_slice_ends_with_its_segment() -> None:
    log = open_log(options=TINY)
    write(log, *[2] * 12)
    assert len(log.segments) > 3
    result = log.read(0, 1 << 20, upper_bound=24)
    assert result.length == log.segments[0].size
    assert result.segment_base_offset == 0
    assert offsets(log) == list(range(24))


@pytest.mark.parametrize("offset", [-1, 1, 12])
def test_offsets_outside_the_log_are_refused(offset: int) -> None:
    log = open_log()
    write(log, 11)
    log.advance_log_start(2)
    with pytest.raises(KafkaError) as error:
        log.read(offset, 100, upper_bound=11)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_many_segments_stay_closed() -> None:  # M-H3
    log = open_log(options=TINY)
    write(log, *[3] * 60)
    assert len(log.segments) >= 20
    assert offsets(log) == list(range(180))
    opened = [segment for segment in log.segments if segment.indexes.offset_index.is_loaded]
    assert len(opened) <= 9


@pytest.mark.trap
def test_read_committed_learns_of_aborted_transactions_across_segments() -> None:
    """Trap 9: read_committed must not leak aborted records; list and LSO right, also across segments."""
    log = open_log(options=TINY)
    committed: list[int] = []
    for number in range(12):
        start = log.end_offset
        transactional(log, 1, 2 * number, count=2)
        transactional(log, 2, number)
        write(log, 1)
        end_transaction(log, 1, commit=number % 3 == 0)
        end_transaction(log, 2, commit=number % 2 == 0)
        committed += [start, start + 1] * (number % 3 == 0) + [start + 2] * (number % 2 == 0) + [start + 3]
    open_from = log.end_offset
    transactional(log, 2, 12)
    log.set_high_watermark(log.end_offset)
    assert log.last_stable_offset == open_from
    assert len(log.segments) > 8
    assert consume_committed(log) == committed


def consume_committed(log: Log) -> list[int]:
    """As a consumer does: skip a producer's records from an aborted transaction's start to its abort marker."""
    seen: list[int] = []
    offset = 0
    while offset < log.last_stable_offset:
        result = log.read(offset, 500, upper_bound=log.last_stable_offset, read_committed=True)
        assert result.aborted is not None
        waiting = sorted(result.aborted, key=lambda transaction: transaction.first_offset)
        skipping: set[int] = set()
        for one in batches_of(result):
            while waiting and waiting[0].first_offset <= one.last_offset:
                skipping.add(waiting.pop(0).producer_id)
            if one.is_control:
                skipping.discard(one.producer_id)
            elif not (one.is_transactional and one.producer_id in skipping):
                seen += [record.offset for record in one.records() if record.offset >= offset]
            offset = one.next_offset
    return seen


def test_read_uncommitted_gets_no_list_and_an_empty_read_an_empty_one() -> None:
    log = open_log()
    transactional(log, 1, 0)
    end_transaction(log, 1, commit=False)
    log.set_high_watermark(2)
    assert log.read(0, 100, upper_bound=2).aborted is None
    assert log.read(2, 100, upper_bound=2, read_committed=True).aborted == ()
    assert len(log.read(0, 100, upper_bound=2, read_committed=True).aborted or ()) == 1


# By time


@pytest.mark.trap
@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_offset_with_a_time_or_later(codec: Codec) -> None:
    """Trap 10: first offset with timestamp >= t, max-timestamp, earliest/latest, also in compressed batches."""
    log = open_log(options=dataclasses.replace(TINY, segment_bytes=400))
    times = [T0 + delta for delta in (5, 3, 9, 20, 15, 40, 30, 41, 60, 55, 80, 70, 100, 101, 102, 99)]
    for start in range(0, 16, 4):
        rows = [Record(i, times[start + i], b"k", b"v" * 20) for i in range(4)]
        log.append_as_leader(build(rows, codec=codec), 2)
    for time in range(T0 - 5, T0 + 110):
        expected = next((offset for offset in range(16) if times[offset] >= time), None)
        found = log.offset_for_time(time)
        assert (None if found is None else found.offset) == expected
        if found is not None and expected is not None:
            assert (found.timestamp, found.leader_epoch) == (times[expected], 2)
    assert log.offset_for_time(MAX_TIMESTAMP) == TimestampAndOffset(T0 + 102, 14, 2)
    assert log.offset_for_time(LATEST_TIMESTAMP) == TimestampAndOffset(-1, 16, 2)
    for earliest in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        assert log.offset_for_time(earliest) == TimestampAndOffset(-1, 0, 2)
    assert log.offset_for_time(LATEST_TIERED_TIMESTAMP) == TimestampAndOffset(-1, -1, -1)


def test_times_before_the_log_start_do_not_count() -> None:
    log = open_log(options=TINY)
    for number in range(10):
        write(log, 2, time=T0 + 10 * number)
    log.advance_log_start(7)
    found = log.offset_for_time(T0)
    assert found is not None
    assert found.offset == 7


def test_an_empty_log_has_no_times() -> None:
    log = open_log()
    assert log.offset_for_time(T0) is None
    assert log.offset_for_time(MAX_TIMESTAMP) is None
    assert log.offset_for_time(LATEST_TIMESTAMP) == TimestampAndOffset(-1, 0, None)


# Offsets


def test_the_log_start_moves_forward_up_to_the_high_watermark() -> None:
    log = open_log()
    write(log, 5, 5)
    log.high_watermark = 8
    assert log.advance_log_start(6)
    assert not log.advance_log_start(6)
    assert log.log_start_offset == 6
    assert log.epochs.entries == [(0, 6)]
    with pytest.raises(KafkaError) as error:
        log.advance_log_start(9)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_high_watermark_stays_within_the_log() -> None:
    log = open_log()
    write(log, 5)
    assert log.set_high_watermark(99) == 5
    assert log.set_high_watermark(-1) == 0
    assert log.advance_high_watermark(3)
    assert not log.advance_high_watermark(2)
    with pytest.raises(ValueError, match="beyond the log end offset"):
        log.advance_high_watermark(6)


# Cutting


def test_truncation_brings_back_what_was_before() -> None:  # M-D5
    disk = MemoryDisk()
    log = open_log(disk, TINY)
    write(log, 2, 2, 2)
    transactional(log, 5, 0, count=2)
    write(log, 2, 2)
    end_transaction(log, 5, commit=False)
    write(log, 2, 2, 2, epoch=3)
    log.flush()
    assert len(log.aborted_transactions(0, 100)) == 1
    assert not log.truncate_to(log.end_offset)
    assert log.truncate_to(10)
    assert (log.end_offset, log.recovery_point, log.high_watermark) == (10, 10, 10)
    assert log.first_unstable_offset == 6
    assert log.producers.has_ongoing_transaction(5, 0)
    assert log.epochs.entries == [(0, 0)]
    assert log.aborted_transactions(0, 100) == []
    write(log, 1, epoch=4)
    assert offsets(log) == list(range(11))
    log.flush()
    log.close()
    again = open_log(disk, TINY)
    assert offsets(again) == list(range(11))
    assert again.first_unstable_offset == 6
    assert again.epochs.entries == [(0, 0), (4, 10)]


def test_truncation_below_the_first_segment_and_fully() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TINY)
    write(log, *[2] * 10)
    log.remove_segments(log.segments[:2], "a test says so")
    start = log.log_start_offset
    assert start > 0
    log.truncate_to(start - 1)
    assert (log.log_start_offset, log.end_offset, log.size) == (start - 1, start - 1, 0)
    write(log, 3)
    log.truncate_fully_to(1000)
    assert (log.log_start_offset, log.end_offset, log.high_watermark) == (1000, 1000, 1000)
    assert log.recovery_point <= 1000
    write(log, 1)
    assert offsets(log) == [1000]
    assert log.epochs.entries == [(0, 1000)]


# Failures


@pytest.mark.parametrize("kind", [Kind.WRITE, Kind.CREATE])
@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_full_disk_refuses_an_append_and_changes_nothing(kind: Kind, batches: int) -> None:
    """On the general path and on the fast one, in a write and in a roll; cluster.md 16."""
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk, TINY)
    write(log, *[2] * batches)
    disk.fail(1, code=errno.ENOSPC, kinds=[kind], path="*.log", times=1, kept_bytes=7)
    with pytest.raises(DirectoryFull) as error:
        for _ in range(4):
            log.append_as_leader(batch(2, size=20), 0)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.value.message == (
        f"{FOLDER}: appending is refused: no space is left on the device;"
        " writes are accepted again when there is room"
    )
    end = log.end_offset
    assert offsets(log) == list(range(end))
    # The disk would take it now, but what was cut off is not synced.
    with pytest.raises(DirectoryFull):
        log.append_as_leader(batch(2, size=20), 0)
    log.flush()
    assert not log.local.is_tail_unsynced
    log.full = None
    write(log, 2, 2, 2)
    assert offsets(log) == list(range(end + 6))
    log.abandon()
    assert offsets(open_log(disk, TINY, clean=False)) == list(range(end + 6))


def test_no_file_of_a_segment_that_could_not_be_made_is_left() -> None:
    """The log goes on in the segment before, beyond the offset at which the new one would begin."""
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk, TINY)
    write(log, 2, 2)
    names = set(files(disk))
    disk.fail(1, code=errno.ENOSPC, kinds=[Kind.CREATE], path="*.timeindex")
    with pytest.raises(DirectoryFull):
        log.roll()
    assert set(files(disk)) == names


def test_what_was_cut_off_is_synced_though_all_records_are() -> None:
    """A power loss could bring back whole batches, in the place and under the epoch of the next ones."""
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk)
    write(log, 1)
    log.flush()
    assert log.plan_flush() is None
    disk.fail(1, code=errno.ENOSPC, kinds=[Kind.WRITE], path="*.log", kept_bytes=500)
    with pytest.raises(DirectoryFull):
        log.append_as_leader(batch(1), 0)
    disk.journal.clear()
    log.flush()
    assert [one.path for one in disk.journal if one.kind is Kind.SYNC] == [log.active.path(LOG)]
    assert log.plan_flush() is None


def test_a_refused_append_advances_no_sequence_and_no_epoch_and_a_resent_batch_is_still_known() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk)
    log.append_as_leader(batch(2, producer_id=7, producer_epoch=0, base_sequence=0), 3)
    for code in (errno.ENOSPC, errno.EDQUOT):
        disk.fail(1, code=code, kinds=[Kind.WRITE], path="*.log", kept_bytes=30)
        with pytest.raises(DirectoryFull):
            log.append_as_leader(batch(2, producer_id=7, producer_epoch=0, base_sequence=2), 4)
        assert log.epochs.entries == [(3, 0)]
        assert log.producers.entries[7].batches[-1].last_sequence == 1
        resent = log.append_as_leader(batch(2, producer_id=7, producer_epoch=0, base_sequence=0), 3)
        assert (resent.duplicate, resent.first_offset) == (True, 0)
        log.flush()
        log.full = None
    result = log.append_as_leader(batch(2, producer_id=7, producer_epoch=0, base_sequence=2), 4)
    assert (result.first_offset, result.duplicate) == (2, False)
    assert log.epochs.entries == [(3, 0), (4, 2)]


@pytest.mark.parametrize("path", ["*.txnindex", "*.log"])
def test_no_marker_is_there_without_its_entry_in_the_transaction_index(path: str) -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk)
    transactional(log, 7, 0, count=2)
    disk.fail(1, code=errno.ENOSPC, kinds=[Kind.WRITE], path=path, kept_bytes=5)
    with pytest.raises(DirectoryFull):
        end_transaction(log, 7, commit=False)
    assert (log.end_offset, log.first_unstable_offset) == (2, 0)
    assert log.active.aborted_transactions() == []
    log.flush()
    log.full = None
    end_transaction(log, 7, commit=False)
    (aborted,) = log.active.aborted_transactions()
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 2)


def test_retention_removes_what_it_can_without_space_for_a_new_segment() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk, TINY)
    write(log, *[2] * 10)
    log.set_high_watermark(log.end_offset)
    last = log.active.base_offset
    assert len(log.segments) > 2
    disk.fail(1, code=errno.ENOSPC, kinds=[Kind.CREATE], path="*.log")
    with pytest.raises(DirectoryFull):
        log.remove_segments(list(log.segments), "a test says so")
    assert log.log_start_offset == last
    assert offsets(log) == list(range(last, log.end_offset))


def test_a_broken_disk_is_a_failure_of_the_directory() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk)
    write(log, 2)
    disk.fail(1, code=errno.EIO, kinds=[Kind.WRITE])
    with pytest.raises(StorageFailure) as error:
        log.append_as_leader(batch(1), 0)
    assert error.value.folder == FOLDER
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.fail(1, code=errno.EIO, kinds=[Kind.SYNC])
    with pytest.raises(StorageFailure):
        log.flush()
    disk.fail(1, code=errno.EIO, kinds=[Kind.READ])
    with pytest.raises(StorageFailure):
        log.read(0, 10, upper_bound=2)


def test_every_operation_may_fail_and_what_was_answered_is_there_after_a_restart() -> None:
    """The nth operation fails, for every n: a refused append leaves nothing, an accepted one is read again."""
    for nth in range(1, 60):
        disk = SimulatedDisk(SeededRandom(nth))
        disk.make_folder(FOLDER)
        disk.fail(nth, code=errno.EIO)
        accepted = 0
        try:
            log = open_log(disk, TINY)
            for _ in range(12):
                log.append_as_leader(batch(2), 0)
                accepted += 2
                if accepted % 8 == 0:
                    log.flush()
        except StorageFailure:
            pass
        disk.clear_faults()
        disk.restart()
        again = open_log(disk, TINY, clean=False)
        assert offsets(again) == list(range(again.end_offset))
        assert accepted <= again.end_offset <= accepted + 2
        assert set(files(disk)) >= {"leader-epoch-checkpoint"}


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_read_without_a_descriptor_is_refused_and_nothing_is_offline(code: int) -> None:
    disk = SimulatedDisk(SeededRandom(1))
    log = open_log(disk)
    log.append_as_leader(batch(), 0)
    log.active.release()
    disk.fail(1, code, kinds=(Kind.READ,))
    with pytest.raises(KafkaError, match="too many open files") as refused:
        log.read(0, 1000, upper_bound=log.end_offset)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not isinstance(refused.value, StorageFailure)
    assert log.read(0, 1000, upper_bound=log.end_offset).slice is not None


@pytest.mark.parametrize("segments", [1, 2])
def test_what_was_truncated_does_not_come_back_after_a_power_loss(segments: int) -> None:
    """Else it would be read under the epoch of what is written there next."""
    for seed in range(20):
        disk = SimulatedDisk(SeededRandom(seed))
        disk.make_folder("/data")
        disk.sync_folder("/")
        log = open_log(disk)
        write(log, 1, 1)
        if segments == 2:
            log.roll()
        write(log, 1)
        log.flush()
        log.truncate_to(1)
        disk.power_loss()
        disk.restart()
        assert open_log(disk, clean=False, recovery_point=0).end_offset == 1, seed


def test_a_truncated_segment_does_not_come_back_behind_what_takes_its_place() -> None:
    """The device happens to write the new records, and the power fails before any flush."""
    for seed in range(20):
        disk = SimulatedDisk(SeededRandom(seed))
        disk.make_folder("/data")
        disk.sync_folder("/")
        log = open_log(disk)
        write(log, 1, 1)
        log.roll()
        write(log, 1)
        log.flush()
        log.truncate_to(1)
        write(log, 1)
        disk.open(f"{FOLDER}/{0:020d}.log").sync()
        disk.power_loss()
        disk.restart()
        assert open_log(disk, clean=False, recovery_point=0).end_offset == 2, seed


def test_what_is_written_after_a_truncation_is_flushed_though_as_much_was_flushed_before() -> None:
    for seed in range(10):
        disk = SimulatedDisk(SeededRandom(seed))
        disk.make_folder("/data")
        disk.sync_folder("/")
        log = open_log(disk)
        write(log, 1, 1, 1, 1)
        log.flush()
        log.truncate_to(1)
        assert log.recovery_point == 1
        write(log, 1, 1, epoch=1)
        log.flush()
        disk.power_loss()
        disk.restart()
        assert open_log(disk, clean=False, recovery_point=1).end_offset == 3, seed
