from __future__ import annotations

import pytest

from barnabas.storage.producers.producer_snapshot import (
    DamagedSnapshot,
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    in_java_order,
)


def entry(producer_id: int) -> SnapshotEntry:
    return SnapshotEntry(producer_id, 1, 2, 3, 0, 4, 5, -1)


def test_an_empty_snapshot_has_ten_bytes() -> None:
    data = encode_snapshot([])
    assert len(data) == 10
    assert decode_snapshot(data) == []


def test_entries_come_back_as_they_were() -> None:
    entries = [SnapshotEntry(4000, 3, 7, 99, 2, 1_700_000_000_000, 12, 97), entry(1)]
    assert sorted(decode_snapshot(encode_snapshot(entries))) == sorted(entries)


def test_the_order_is_that_of_javas_hash_map() -> None:
    order = [row.producer_id for row in in_java_order([entry(number) for number in (33, 2, 17, 1, 65536)])]
    assert order == [33, 17, 1, 65536, 2]  # buckets 1, 1, 1, 1 (folded), 2 of 16
    many = [row.producer_id for row in in_java_order([entry(number) for number in range(20, 0, -1)])]
    assert many == list(range(1, 21))


@pytest.mark.parametrize("position", range(0, 102, 3))
def test_any_flipped_bit_is_noticed(position: int) -> None:
    data = bytearray(encode_snapshot([entry(1), entry(2)]))
    data[position] ^= 0x10
    with pytest.raises(DamagedSnapshot):
        decode_snapshot(bytes(data))


def test_any_cut_is_noticed() -> None:
    data = encode_snapshot([entry(1), entry(2)])
    for length in range(len(data)):
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(data[:length])
    with pytest.raises(DamagedSnapshot):
        decode_snapshot(data + b"\x00")
