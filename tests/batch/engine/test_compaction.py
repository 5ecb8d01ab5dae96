"""Compaction's passes: what they keep, what they reject, and that compiled and plain Python agree."""

from __future__ import annotations

from typing import Any

import pytest
from fastcrc import crc32
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.batch.build import build, build_empty
from barnabas.batch.compression import Codec, compress, decompress
from barnabas.batch.engine.compaction import filter_chunk, index_chunk
from barnabas.batch.engine.compaction_write import Walk
from barnabas.batch.engine.offset_map import OffsetMap
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, batches

from .twins import plain

NOW = 1_800_000_000_000
ALL = 10**9
RETENTION_MS = 500


class CleanerContext:
    """No transactions; producers in `last` keep the batch that ends with the given offset."""

    def __init__(self, aborted: frozenset[int] = frozenset(), last: dict[int, int] | None = None) -> None:
        self.aborted = aborted
        self.last = last or {}

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        return producer_id in self.aborted

    def is_marker_idle(self, producer_id: int, last_offset: int, control_type: int) -> bool:
        return control_type in (-1, 0, 1)

    def ends_producer(self, producer_id: int, producer_epoch: int, last_offset: int, control: bool) -> bool:
        return self.last.get(producer_id) == last_offset

    def checksum(self, data: bytes) -> int:
        return crc32.iscsi(data)

    def decompress(self, codec: int, data: bytes) -> bytes:
        return decompress(Codec(codec), data)

    def compress(self, codec: int, data: bytes) -> bytes:
        return compress(Codec(codec), data)


def batch(start: int, *pairs: tuple[bytes | None, bytes | None], **fields: Any) -> bytes:
    records = [Record(start + n, NOW - 1000 + n, key, value) for n, (key, value) in enumerate(pairs)]
    return bytes(build(records, base_offset=start, **fields))


def compacted(
    chunk: bytes, context: CleanerContext | None = None, round_end: int = -1, now_ms: int = NOW
) -> list[BatchView]:
    offsets, context = OffsetMap(1000), context or CleanerContext()
    assert index_chunk(offsets, chunk, 0, ALL, context, Walk()) == len(chunk)
    walk = Walk()
    assert filter_chunk(offsets, chunk, now_ms, RETENTION_MS, round_end, context, walk) == len(chunk)
    kept = list(batches(walk.output()))
    assert all(view.crc_ok() for view in kept)
    assert walk.last_offset == (kept[-1].last_offset if kept else -1)
    assert walk.records_kept == sum(view.record_count for view in kept)
    return kept


def test_a_batch_that_is_kept_entirely_is_copied() -> None:
    data = batch(0, (b"a", b"1"), (b"b", b"2"), codec=Codec.ZSTD)
    (kept,) = compacted(data)
    assert kept.copy() == data


def test_only_the_last_record_of_a_key_is_kept() -> None:
    first, second = batch(0, (b"a", b"1"), (b"b", b"2"), (b"a", b"3")), batch(3, (b"b", b"4"))
    kept = compacted(first + second)
    assert [(r.offset, r.key, r.value) for view in kept for r in view.records()] == [
        (2, b"a", b"3"),
        (3, b"b", b"4"),
    ]
    assert (kept[0].base_offset, kept[0].last_offset) == (0, 2)


def test_records_beyond_the_map_are_kept() -> None:
    chunk = batch(0, (b"a", b"1")) + batch(1, (b"a", b"2")) + batch(2, (None, b"3"), (b"a", b"4"))
    offsets, walk = OffsetMap(10), Walk()
    index_chunk(offsets, chunk[: len(chunk) // 3], 0, ALL, CleanerContext(), walk)
    assert offsets.latest_offset == 0
    filter_chunk(offsets, chunk, NOW, 500, -1, CleanerContext(), walk)
    assert walk.output() == chunk


def test_only_offsets_from_the_first_dirty_one_are_added() -> None:
    offsets, walk = OffsetMap(10), Walk()
    index_chunk(offsets, batch(0, (b"a", b"1"), (b"b", b"2"), (b"c", b"3")), 1, ALL, CleanerContext(), walk)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.size) == (-1, 1, 2)


def test_a_full_map_stops_the_index_within_a_batch() -> None:
    offsets, walk = OffsetMap(10), Walk()
    chunk = batch(0, (b"a", b"1")) + batch(1, (b"b", b"2"), (b"c", b"3"), (b"d", b"4"))
    used = index_chunk(offsets, chunk, 0, 3, CleanerContext(), walk)
    assert walk.full
    assert (used, offsets.latest_offset, offsets.size) == (len(chunk) - len(chunk[used:]), 2, 3)
    assert 0 < used < len(chunk)


def test_the_first_cleaning_gives_tombstones_a_delete_horizon() -> None:
    # KIP-534: delete.retention.ms starts with the first cleaning, not with the record's timestamp.
    chunk = batch(0, (b"a", b"1"), (b"b", b"2")) + batch(2, (b"a", None), (b"c", b"3"))
    data, stamped = compacted(chunk)
    assert ([r.key for r in data.records()], data.delete_horizon_ms) == ([b"b"], None)
    assert stamped.delete_horizon_ms == NOW + RETENTION_MS
    assert [(r.key, r.value, r.timestamp) for r in stamped.records()] == [
        (b"a", None, NOW - 1000),
        (b"c", b"3", NOW - 999),
    ]
    assert stamped.max_timestamp == NOW - 999


@pytest.mark.parametrize(("now_ms", "kept_keys"), [(NOW - 1, [b"a", b"c"]), (NOW, [b"c"]), (NOW + 1, [b"c"])])
def test_a_tombstone_is_removed_at_its_delete_horizon(now_ms: int, kept_keys: list[bytes]) -> None:
    chunk = batch(0, (b"a", None), (b"c", b"3"), delete_horizon_ms=NOW)
    (kept,) = compacted(chunk, now_ms=now_ms)
    assert [r.key for r in kept.records()] == kept_keys
    assert kept.delete_horizon_ms == NOW, "a horizon is set once"
    assert (kept.copy() == chunk) is (len(kept_keys) == 2)


def test_a_tombstone_with_a_later_value_is_removed_before_its_delete_horizon() -> None:
    chunk = batch(0, (b"a", None), delete_horizon_ms=NOW + 1) + batch(1, (b"a", b"2"))
    (kept,) = compacted(chunk)
    assert (kept.base_offset, kept.delete_horizon_ms) == (1, None)


def test_an_aborted_batch_is_not_indexed_and_is_removed() -> None:
    chunk = batch(0, (b"a", b"1")) + batch(
        1, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    (kept,) = compacted(chunk, CleanerContext(aborted=frozenset([7])))
    assert [r.value for r in kept.records()] == [b"1"]
    _, empty = compacted(chunk, CleanerContext(aborted=frozenset([7]), last={7: 1}))
    assert (empty.record_count, empty.producer_id, empty.is_transactional) == (0, 7, True)


def test_an_empty_batch_is_kept_only_if_needed() -> None:
    empty = bytes(build_empty(0, 4, producer_id=3, producer_epoch=1, base_sequence=9, max_timestamp=NOW))
    assert compacted(empty) == []
    (kept,) = compacted(empty, CleanerContext(last={3: 4}))
    assert kept.copy() == empty
    (kept,) = compacted(empty, round_end=5)
    assert kept.copy() == empty


def test_a_truncated_batch_at_the_end_is_left_for_the_next_chunk() -> None:
    first, second = batch(0, (b"a", b"1")), batch(1, (b"b", b"2"))
    for cut in range(len(second)):
        offsets, walk = OffsetMap(10), Walk()
        assert index_chunk(offsets, first + second[:cut], 0, ALL, CleanerContext(), walk) == len(first)
        assert filter_chunk(offsets, first + second[:cut], NOW, 500, -1, CleanerContext(), Walk()) == len(
            first
        )


@pytest.mark.parametrize(
    ("position", "value", "fault"),
    [
        (16, b"\x01", "format v1 is not compacted"),
        (8, (20).to_bytes(4, "big"), "a batch of 32 bytes has no room for its header"),
        (8, (2**32 - 5).to_bytes(4, "big"), "has no room for its header"),
        (62, b"\xff", "the checksum of the batch at offset 0 is wrong"),
        (57, (2).to_bytes(4, "big"), "the checksum"),
    ],
)
def test_damage_is_rejected(position: int, value: bytes, fault: str) -> None:
    data = bytearray(batch(0, (b"a", b"1")))
    data[position : position + len(value)] = value
    with pytest.raises(ValueError, match=fault):
        index_chunk(OffsetMap(10), bytes(data), 0, ALL, CleanerContext(), Walk())


def with_payload(payload: bytes, count: int, attributes: int = 0) -> bytes:
    """A batch with a valid checksum and arbitrary records."""
    data = bytearray(batch(0, (b"a", b"1"))[:61]) + payload
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[21:23] = attributes.to_bytes(2, "big")
    data[57:61] = count.to_bytes(4, "big", signed=True)
    data[17:21] = crc32.iscsi(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("payload", "count", "fault"),
    [
        (b"", 1, "number is cut short"),
        (b"\xff\xff\xff\xff\xff\xff", 1, "number is cut short or too long"),
        (b"\x7e", 1, "a record of 63 bytes does not fit the 0 that are left"),
        (b"\x01", 1, "a record of -1 bytes"),
        (b"\x02\x00", 1, "a timestamp is cut short"),
        (b"\x04\x00\x00", 1, "number is cut short"),
        (b"\x08\x00\x00\x00\x7e", 1, "a key or value of 63 bytes does not fit"),
        (b"\x0a\x00\x00\x00\x01\x7e", 1, "a key or value of 63 bytes does not fit"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 0, "7 bytes remain after the last record"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, "number is cut short"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", -1, "7 bytes remain"),
    ],
)
def test_hostile_records_are_rejected(payload: bytes, count: int, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        filter_chunk(OffsetMap(10), with_payload(payload, count), NOW, 500, -1, CleanerContext(), Walk())


def test_a_control_record_without_a_type_is_rejected() -> None:
    with pytest.raises(ValueError, match="a control record has no type"):
        index_chunk(
            OffsetMap(10),
            with_payload(b"\x0c\x00\x00\x00\x01\x01\x00", 1, 0x20),
            0,
            ALL,
            CleanerContext(),
            Walk(),
        )


RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=3),
        st.none() | st.binary(max_size=5),
        st.integers(-(2**40), 2**40),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)
BATCHES = st.lists(
    st.tuples(RECORDS, st.sampled_from([0x00, 0x08, 0x10, 0x40, 0x48])), min_size=1, max_size=5
)


@given(BATCHES, st.integers(1, 40), st.integers(0, 60))
@settings(max_examples=60)
def test_compiled_and_plain_agree(
    rows: list[tuple[list[tuple[bytes | None, bytes | None, int, bool]], int]], limit: int, round_end: int
) -> None:
    chunk = b""
    offset = 0
    for records, attributes in rows:
        made = []
        for key, value, time, gap in records:
            offset += 1 + gap
            made.append(Record(offset, NOW + time, key, value, (("h", None),) if gap else ()))
        data = build(made, producer_id=4, producer_epoch=0, base_sequence=0)
        data[21:23] = attributes.to_bytes(2, "big")
        data[17:21] = crc32.iscsi(bytes(data[21:])).to_bytes(4, "big")
        chunk += data
    assert outcome(OffsetMap, index_chunk, filter_chunk, Walk, chunk, limit, round_end) == outcome(
        plain("offset_map").OffsetMap,
        plain("compaction").index_chunk,
        plain("compaction").filter_chunk,
        plain("compaction_write").Walk,
        chunk,
        limit,
        round_end,
    )


@given(st.binary(max_size=40), st.integers(-1, 4), st.sampled_from([0, 0x20, 0x10]))
@settings(max_examples=200)
def test_compiled_and_plain_agree_on_any_records(payload: bytes, count: int, attributes: int) -> None:
    chunk = with_payload(payload, count, attributes)
    assert outcome(OffsetMap, index_chunk, filter_chunk, Walk, chunk, 9, 1) == outcome(
        plain("offset_map").OffsetMap,
        plain("compaction").index_chunk,
        plain("compaction").filter_chunk,
        plain("compaction_write").Walk,
        chunk,
        9,
        1,
    )


def outcome(
    offset_map: Any, index: Any, filters: Any, walk_class: Any, chunk: Any, limit: Any, round_end: Any
) -> Any:
    """The result of both passes over a chunk, or the text of their error."""
    offsets, seen, context = offset_map(100), walk_class(), CleanerContext(last={4: 3})
    try:
        used = index(offsets, chunk, 2, limit, context, seen)
        filtered = walk_class()
        filters(offsets, chunk, NOW, 500, round_end, context, filtered)
    except ValueError as refusal:
        return str(refusal)
    return (
        used,
        seen.full,
        seen.records_read,
        offsets.size,
        offsets.latest_offset,
        filtered.output(),
        filtered.last_offset,
        filtered.records_kept,
        filtered.keyless,
    )
