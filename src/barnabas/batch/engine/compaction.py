"""Compaction's loops over batches and records: which keys have a later value, and what remains of a batch.

Contains the two passes over a chunk of a segment, `index_chunk` and `filter_chunk`.  Files, clocks and the
state of transactions belong in `storage`; the passes get the latter from a `CleanerContext`.

Both read batches of format v2 up to the last complete one, return how many bytes that was, and raise
ValueError at the first malformed byte.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from barnabas.batch.engine.compaction_write import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    CleanerContext,
    Kept,
    Walk,
    rewrite,
    write_empty,
)
from barnabas.batch.engine.offset_map import OffsetMap
from barnabas.batch.engine.varints import add_wrapping, read_varint, read_varlong

MAGIC: Final = 2


def _batch_size(chunk: bytes, at: i64) -> i64:
    """The size of the batch at this position; -1 if the chunk ends before it does."""
    available = len(chunk) - at
    if available < HEADER_SIZE:
        return -1
    magic: i64 = chunk[at + 16]
    if magic != MAGIC:
        raise ValueError(f"a batch of format v{magic} is not compacted, only format v2")
    size = i64(read_i32_be(chunk, at + 8)) + LOG_OVERHEAD
    if size < HEADER_SIZE:
        raise ValueError(f"a batch of {size} bytes has no room for its header")
    return size if size <= available else -1


def _payload(chunk: bytes, at: i64, size: i64, codec: i64, context: CleanerContext) -> bytes:
    """The uncompressed records of a batch, after its checksum was verified."""
    stored: i64 = i64(read_i32_be(chunk, at + 17))
    computed: i64 = context.checksum(chunk[at + 21 : at + size])
    if (stored & 0xFFFFFFFF) != computed:
        raise ValueError(f"the checksum of the batch at offset {read_i64_be(chunk, at)} is wrong")
    packed = chunk[at + HEADER_SIZE : at + size]
    return context.decompress(codec, packed) if codec != 0 else packed


def _number(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """A varint and the position after it."""
    number, after = read_varint(data, at, end)
    if after < 0:
        raise ValueError("a variable-length number is cut short or too long")
    return number, after


def _field(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Length (-1: null) and position of a record's key or value, which must end before `end`."""
    length, after = _number(data, at, end)
    if length > end - after:
        raise ValueError(f"a key or value of {length} bytes does not fit its record")
    return length, after


def _time(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """A record's timestamp delta, and the position after it."""
    delta, after = read_varlong(data, at, end)
    if after < 0:
        raise ValueError("a timestamp is cut short or too long")
    return delta, after


def _body(data: bytes, at: i64) -> tuple[i64, i64]:
    """Where the body of the record at this position starts and ends."""
    end: i64 = len(data)
    length, body = _number(data, at, end)
    if length < 1 or length > end - body:
        raise ValueError(f"a record of {length} bytes does not fit the {end - body} that are left")
    return body, body + length


def _control_type(data: bytes, count: i64) -> i64:
    """The type in the key of a control batch's first record; -1 if it has none."""
    if count == 0:
        return -1
    body, end = _body(data, 0)
    _, at = _time(data, body + 1, end)
    _, at = _number(data, at, end)
    length, at = _field(data, at, end)
    if length < 4:
        raise ValueError("a control record has no type")
    kind: i64 = i64(read_i16_be(data, at + 2))
    return kind


def _check_all_read(data: bytes, at: i64) -> None:
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes remain after the last record that the batch counts")


def _is_aborted(chunk: bytes, at: i64, attributes: i64, last_offset: i64, context: CleanerContext) -> bool:
    if attributes & TRANSACTIONAL == 0:
        return False
    return context.is_aborted(read_i64_be(chunk, at + 43), last_offset)


def index_chunk(
    offsets: OffsetMap, chunk: bytes, first_offset: i64, max_entries: i64, context: CleanerContext, walk: Walk
) -> i64:
    """Add the keys of all records from first_offset on; sets walk.full once the map has max_entries."""
    at: i64 = 0
    size = _batch_size(chunk, at)
    while size > 0:
        base: i64 = read_i64_be(chunk, at)
        attributes: i64 = i64(read_i16_be(chunk, at + 21))
        last: i64 = base + i64(read_i32_be(chunk, at + 23))
        count: i64 = i64(read_i32_be(chunk, at + 57))
        if attributes & CONTROL != 0:
            records = _payload(chunk, at, size, attributes & CODEC_MASK, context)
            context.is_marker_idle(read_i64_be(chunk, at + 43), last, _control_type(records, count))
        elif not _is_aborted(chunk, at, attributes, last, context) and last >= first_offset:
            records = _payload(chunk, at, size, attributes & CODEC_MASK, context)
            if _index_records(offsets, records, count, base, first_offset, max_entries):
                walk.full = True
                return at
        walk.records_read += count
        walk.bytes_read += size
        if last >= first_offset:
            offsets.latest_offset = last
        at += size
        size = _batch_size(chunk, at)
    return at


def _index_records(
    offsets: OffsetMap, data: bytes, count: i64, base: i64, first_offset: i64, max_entries: i64
) -> bool:
    at: i64 = 0
    while count > 0:
        body, end = _body(data, at)
        _, at = _time(data, body + 1, end)
        delta, at = _number(data, at, end)
        length, at = _field(data, at, end)
        offset = base + delta
        if length >= 0 and offset >= first_offset:
            if offsets.size >= max_entries:
                return True
            offsets.put(data[at : at + length], offset)
        at = end
        count -= 1
    _check_all_read(data, at)
    return False


def _select(
    offsets: OffsetMap,
    data: bytes,
    count: i64,
    base: i64,
    base_timestamp: i64,
    control: bool,
    keep_tombstones: bool,
    walk: Walk,
) -> Kept:
    """A record is kept if it is beyond the map, or if it is the latest of its key and not an expired
    tombstone."""
    kept = Kept()
    latest = offsets.latest_offset
    at: i64 = 0
    while count > 0:
        start = at
        body, end = _body(data, at)
        time_delta, after_time = _time(data, body + 1, end)
        delta, at = _number(data, after_time, end)
        key_length, key = _field(data, at, end)
        value_length, _ = _field(data, key + (key_length if key_length > 0 else 0), end)
        stays = True
        if not control and base + delta <= latest:
            if key_length < 0:
                walk.keyless += 1
                stays = False
            else:
                stays = (value_length >= 0 or keep_tombstones) and base + delta >= offsets.get(
                    data[key : key + key_length]
                )
        if stays:
            kept.add(start, after_time, end, add_wrapping(base_timestamp, time_delta))
            if value_length < 0:
                kept.tombstones = True
        at = end
        count -= 1
    _check_all_read(data, at)
    return kept


def filter_chunk(
    offsets: OffsetMap,
    chunk: bytes,
    now_ms: i64,
    delete_retention_ms: i64,
    round_end: i64,
    context: CleanerContext,
    walk: Walk,
) -> i64:
    """Write the retained parts of the chunk's batches to walk.out.

    round_end is the offset at which this cleaning ends: the batch before it is kept, if only as a header, so
    that the log does not lose its last offset.
    """
    at: i64 = 0
    size = _batch_size(chunk, at)
    while size > 0:
        _filter_batch(offsets, chunk, at, size, now_ms, delete_retention_ms, round_end, context, walk)
        walk.bytes_read += size
        at += size
        size = _batch_size(chunk, at)
    return at


def _filter_batch(
    offsets: OffsetMap,
    chunk: bytes,
    at: i64,
    size: i64,
    now_ms: i64,
    delete_retention_ms: i64,
    round_end: i64,
    context: CleanerContext,
    walk: Walk,
) -> None:
    base: i64 = read_i64_be(chunk, at)
    attributes: i64 = i64(read_i16_be(chunk, at + 21))
    last: i64 = base + i64(read_i32_be(chunk, at + 23))
    base_timestamp: i64 = read_i64_be(chunk, at + 27)
    producer_id: i64 = read_i64_be(chunk, at + 43)
    count: i64 = i64(read_i32_be(chunk, at + 57))
    control = attributes & CONTROL != 0
    has_horizon = attributes & DELETE_HORIZON != 0
    records = _payload(chunk, at, size, attributes & CODEC_MASK, context)

    idle = False
    if control:
        # A marker is removed after its delete horizon, like a tombstone, and after all data of its
        # transaction (KIP-534).
        idle = context.is_marker_idle(producer_id, last, _control_type(records, count))
        discard = idle and has_horizon and base_timestamp <= now_ms
    else:
        discard = _is_aborted(chunk, at, attributes, last, context)
    keep_empty = last + 1 == round_end or (
        producer_id >= 0
        and context.ends_producer(producer_id, i64(read_i16_be(chunk, at + 51)), last, control)
    )
    if discard and not keep_empty:
        return
    if discard:
        walk.records_read += count
        write_empty(chunk, at, attributes, walk, context)
        return

    keep_tombstones = not has_horizon or now_ms < base_timestamp
    kept = _select(offsets, records, count, base, base_timestamp, control, keep_tombstones, walk)
    walk.records_read += count
    walk.records_kept += kept.count
    if kept.count == 0:
        if keep_empty:
            write_empty(chunk, at, attributes, walk, context)
        return
    stamp = (kept.tombstones or idle) and not has_horizon
    if kept.count == count and not stamp:
        walk.out.write(chunk[at : at + size])
        walk.last_offset = last
    else:
        horizon = now_ms + delete_retention_ms if stamp else (base_timestamp if has_horizon else NO_TIMESTAMP)
        rewrite(chunk, at, attributes, records, kept, horizon, walk, context)
