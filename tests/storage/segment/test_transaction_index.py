from __future__ import annotations

import pytest

from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.segment.transaction_index import AbortedTransaction, DamagedIndex, TransactionIndex

PATH = "/d/a.txnindex"
FIRST = AbortedTransaction(7, 100, 110, 105)
SECOND = AbortedTransaction(8, 105, 120, 112)
THIRD = AbortedTransaction(7, 130, 140, 141)


def index_of(disk: MemoryDisk, *entries: AbortedTransaction) -> TransactionIndex:
    disk.make_folder("/d")
    index = TransactionIndex(disk, PATH, 100)
    for entry in entries:
        index.append(entry)
    return index


def test_the_file_comes_with_the_first_aborted_transaction() -> None:
    disk = MemoryDisk()
    index = index_of(disk)
    assert not disk.exists(PATH)
    assert index.all() == []
    index.append(FIRST)
    assert disk.read_bytes(PATH).hex() == "0000" + "".join(f"{field:016x}" for field in FIRST)


def test_ends_must_ascend_also_after_reopening() -> None:
    disk = MemoryDisk()
    index_of(disk, FIRST, SECOND).release()
    index = index_of(disk)
    with pytest.raises(ValueError, match="does not follow"):
        index.append(SECOND)
    index.append(THIRD)
    assert index.all() == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize(
    ("first", "upper_bound", "found", "complete"),
    [
        (0, 1000, [FIRST, SECOND, THIRD], False),
        (111, 1000, [SECOND, THIRD], False),
        (110, 106, [FIRST, SECOND], True),
        (100, 104, [FIRST], True),
        (121, 131, [THIRD], True),
        (141, 1000, [], False),
    ],
)
def test_a_reader_gets_those_that_touch_its_range(
    first: int, upper_bound: int, found: list[AbortedTransaction], complete: bool
) -> None:
    index = index_of(MemoryDisk(), FIRST, SECOND, THIRD)
    assert index.collect(first, upper_bound) == (found, complete)


def test_truncation_drops_what_ended_later() -> None:
    index = index_of(MemoryDisk(), FIRST, SECOND, THIRD)
    index.truncate_to(141)
    assert len(index.all()) == 3
    index.truncate_to(120)
    assert index.all() == [FIRST]
    index.append(SECOND)
    index.reset()
    assert index.all() == []
    index.append(FIRST)


def test_damage_is_noticed() -> None:
    disk = MemoryDisk()
    limit = SECOND.last_offset + 1
    index_of(disk, FIRST, SECOND).check(limit)
    whole = disk.read_bytes(PATH)
    for damaged, reason in (
        (whole[:-1], "multiple"),
        (b"\x00\x01" + whole[2:], "unknown version"),
        (whole[34:] + whole[:34], "does not end between"),
        (whole[:18] + b"\x01" + whole[19:], "does not end between"),
        (whole[:2] + b"\xff" + whole[3:], "contradicts itself"),
        (whole[:10] + b"\x01" + whole[11:], "contradicts itself"),
        (whole[:26] + b"\x01" + whole[27:], "contradicts itself"),
    ):
        disk.write_atomically(PATH, damaged)
        with pytest.raises(DamagedIndex, match=reason):
            index_of(disk).check(limit)


def test_a_half_written_entry_does_not_spoil_the_next() -> None:
    disk = MemoryDisk()
    index = index_of(disk, FIRST)
    disk.open(PATH).append([b"\x00\x00\x00"])
    index.append(SECOND)
    assert index.all() == [FIRST, SECOND]
