from __future__ import annotations

import pytest

from barnabas.batch.control import EndTransactionMarker
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.producers.producer_append import AppendOrigin, CompletedTransaction
from barnabas.storage.producers.producers import Producers
from tests.storage.logs import T0

EXPIRATION_MS = 1000


def producers_on(disk: MemoryDisk) -> Producers:
    disk.make_folder("/d")
    producers = Producers(disk, "/d", "orders-0", EXPIRATION_MS)
    producers.list_snapshots(disk.names("/d"))
    return producers


def begin(producers: Producers, producer_id: int, offset: int, *, transactional: bool = True) -> None:
    append = producers.prepare(producer_id, AppendOrigin.REPLICATION)
    append.add_data(0, 0, 0, T0, offset, offset, transactional)
    producers.apply(append)
    producers.end_offset = offset + 1


def end(producers: Producers, producer_id: int, offset: int) -> CompletedTransaction:
    append = producers.prepare(producer_id, AppendOrigin.REPLICATION)
    completed = append.add_marker(EndTransactionMarker(True, 0), 0, offset, T0)
    assert completed is not None
    producers.apply(append)
    producers.end_offset = offset + 1
    return completed


def test_the_first_unstable_offset_waits_for_the_marker_to_be_replicated() -> None:
    producers = producers_on(MemoryDisk())
    assert producers.first_unstable_offset is None
    begin(producers, 1, 10)
    begin(producers, 2, 11)
    assert producers.first_unstable_offset == 10
    completed = end(producers, 1, 12)
    assert producers.stable_offset_after(completed) == 11
    producers.complete(completed)
    assert producers.first_unstable_offset == 10
    producers.on_high_watermark(12)
    assert producers.first_unstable_offset == 10
    producers.on_high_watermark(13)
    assert producers.first_unstable_offset == 11
    completed = end(producers, 2, 13)
    assert producers.stable_offset_after(completed) == 14
    producers.complete(completed)
    producers.on_high_watermark(14)
    assert producers.first_unstable_offset is None


def test_a_snapshot_is_written_once_for_an_offset_and_read_back() -> None:
    disk = MemoryDisk()
    producers = producers_on(disk)
    assert producers.take_snapshot(sync=True) is None
    begin(producers, 1, 10)
    begin(producers, 2, 11, transactional=False)
    assert producers.take_snapshot(sync=True) == "/d/00000000000000000012.snapshot"
    assert producers.take_snapshot(sync=True) is None
    again = producers_on(disk)
    again.reload(0, 20, T0)
    assert again.end_offset == 12
    assert again.first_unstable_offset == 10
    assert again.has_ongoing_transaction(1, 0)
    assert not again.has_ongoing_transaction(2, 0)
    assert again.entries[2].last_sequence == 0


def test_snapshots_beyond_the_log_go_and_damaged_ones_are_passed_over() -> None:
    disk = MemoryDisk()
    producers = producers_on(disk)
    for offset in (5, 8, 11, 14):
        begin(producers, offset, offset - 1, transactional=False)
        producers.take_snapshot(sync=True)
    disk.write_atomically("/d/00000000000000000011.snapshot", b"\x00\x01nonsense!!")
    again = producers_on(disk)
    assert again.snapshots == [5, 8, 11, 14]
    again.reload(5, 13, T0)
    assert again.end_offset == 8
    assert again.snapshots == [8]
    assert disk.names("/d") == ["00000000000000000008.snapshot"]
    assert sorted(again.entries) == [5, 8]


def test_without_a_snapshot_the_state_is_empty_at_the_log_start() -> None:
    producers = producers_on(MemoryDisk())
    producers.reload(7, 20, T0)
    assert (producers.end_offset, producers.is_empty) == (7, True)


def test_stray_snapshots_go_but_the_newest_beyond_the_last_segment() -> None:
    disk = MemoryDisk()
    producers = producers_on(disk)
    for offset in (3, 5, 8, 9, 12, 15):
        producers.end_offset = offset
        producers.take_snapshot(sync=True)
    producers.remove_stray_snapshots([0, 5, 9])
    assert producers.snapshots == [5, 9, 15]
    producers.remove_stray_snapshots([0, 5, 20])
    assert producers.snapshots == [5]
    assert disk.names("/d") == ["00000000000000000005.snapshot"]


def test_producers_expire_unless_a_transaction_is_open() -> None:
    disk = MemoryDisk()
    producers = producers_on(disk)
    begin(producers, 1, 10)
    begin(producers, 2, 11, transactional=False)
    producers.start_verification(3, 0, 0, supports_epoch_bump=False, now_ms=T0)
    producers.take_snapshot(sync=True)
    producers.remove_expired(T0 + EXPIRATION_MS - 1)
    assert sorted(producers.entries) == [1, 2]
    producers.remove_expired(T0 + EXPIRATION_MS)
    assert sorted(producers.entries) == [1]
    assert producers.verification(3) is None
    again = producers_on(disk)
    again.reload(0, 12, T0 + EXPIRATION_MS)
    assert sorted(again.entries) == [1]


@pytest.mark.parametrize(
    ("supports_epoch_bump", "marker_epoch", "is_ended"),
    [
        # From transaction.version 2 on a marker has the epoch after its transaction's (KIP-890).
        (True, 4, True),
        (True, 3, False),
        (True, 2, False),
        (False, 3, True),
    ],
)
def test_a_marker_ends_the_verification_of_its_own_transaction_only(
    supports_epoch_bump: bool, marker_epoch: int, is_ended: bool
) -> None:
    """The marker of the last transaction ended it, too: the next one got INVALID_TXN_STATE."""
    producers = producers_on(MemoryDisk())
    producers.start_verification(3, 0, 3, supports_epoch_bump=supports_epoch_bump, now_ms=T0)
    producers.marker_appended(3, marker_epoch)
    producers.marker_appended(4, marker_epoch)
    assert (producers.verification(3) is None) == is_ended


def test_a_snapshot_marked_deleted_is_renamed() -> None:
    disk = MemoryDisk()
    producers = producers_on(disk)
    producers.end_offset = 4
    producers.take_snapshot(sync=True)
    assert producers.mark_snapshot_deleted(4) == "00000000000000000004.snapshot.deleted"
    assert producers.mark_snapshot_deleted(4) is None
    assert disk.names("/d") == ["00000000000000000004.snapshot.deleted"]


def test_a_full_truncation_removes_all_producers() -> None:
    disk = MemoryDisk()
    producers = producers_on(disk)
    begin(producers, 1, 10)
    producers.take_snapshot(sync=True)
    producers.truncate_fully_to(50)
    assert producers.is_empty
    assert producers.first_unstable_offset is None
    assert producers.end_offset == 50
    assert disk.names("/d") == []
