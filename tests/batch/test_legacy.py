"""The formats before v2."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.compression import Codec, compress
from barnabas.batch.legacy import OldBatch, all_batches, repair_lz4_header, short_xxhash32, up_converted
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import BatchView, CorruptBatch

from .samples import START, numbered, vectors

OLD = vectors("old-batches")


def old_message(offset: int, magic: int, attributes: int, key: bytes | None, value: bytes | None) -> bytes:
    body = bytes((magic, attributes))
    if magic == 1:
        body += (START + offset).to_bytes(8, "big")
    for content in (key, value):
        body += (-1 if content is None else len(content)).to_bytes(4, "big", signed=True) + (content or b"")
    message = zlib.crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("vector", OLD, ids=lambda v: f"v{v['magic']} {v['codec']}")
def test_old_messages_that_apache_kafka_wrote_are_read(vector: dict[str, object]) -> None:
    raw = bytes.fromhex(str(vector["hex"]))
    magic = vector["magic"]
    found = list(all_batches(raw))
    assert all(batch.crc_ok() for batch in found)
    times = (-1, -1) if magic == 0 else (START, START + 1)
    assert [record for batch in found for record in batch.records()] == [
        Record(10, times[0], b"k1", b"v1"),
        Record(11, times[1], None, b"v2"),
    ]
    assert found[0].base_offset == 10
    assert found[-1].last_offset == 11
    assert found[-1].next_offset == 12
    assert found[-1].max_timestamp == times[1]
    assert {batch.magic for batch in found} == {magic}
    assert {batch.codec.config_name for batch in found} == {vector["codec"]}


def test_formats_may_mix_in_one_log() -> None:
    new = bytes(build(numbered(2)))
    old = bytes.fromhex(str(OLD[0]["hex"]))
    kinds = [type(batch) for batch in all_batches(old + new + old[:20])]
    assert kinds == [OldBatch, OldBatch, BatchView]


def test_a_log_append_time_wrapper_gives_its_timestamp_to_all_messages() -> None:
    inside = old_message(0, 1, 0, b"a", b"1") + old_message(1, 1, 0, b"b", b"2")
    wrapper = OldBatch(old_message(71, 1, 8 | Codec.GZIP, None, compress(Codec.GZIP, inside)))
    assert wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [(r.offset, r.timestamp) for r in wrapper.records()] == [(70, START + 71), (71, START + 71)]


def test_a_batch_of_an_old_format_is_converted_with_its_offsets_and_times() -> None:
    inside = old_message(0, 1, 0, b"a", b"1") + old_message(1, 1, 0, b"b", b"2")
    wrapper = OldBatch(old_message(71, 1, 8 | Codec.GZIP, None, compress(Codec.GZIP, inside)))
    converted = up_converted(wrapper)
    assert converted.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert list(converted.records()) == list(wrapper.records())


def test_a_wrapper_with_offset_zero_keeps_the_inner_offsets() -> None:
    inside = old_message(0, 1, 0, b"a", b"1") + old_message(1, 1, 0, b"b", b"2")
    wrapper = OldBatch(old_message(0, 1, Codec.SNAPPY, None, compress(Codec.SNAPPY, inside)))
    assert [record.offset for record in wrapper.records()] == [0, 1]


@pytest.mark.parametrize(
    ("attributes", "value"),
    [
        (Codec.GZIP, None),
        (Codec.GZIP, compress(Codec.GZIP, b"")),
        (Codec.ZSTD, compress(Codec.ZSTD, old_message(0, 1, 0, b"a", b"1"))),
        (Codec.GZIP, compress(Codec.GZIP, old_message(0, 1, Codec.GZIP, None, b"inner"))),
        (Codec.GZIP, compress(Codec.GZIP, old_message(99, 1, 0, b"a", b"1"))),
    ],
    ids=["null", "empty", "zstd", "nested", "offset beyond the wrapper"],
)
def test_malformed_wrappers_are_rejected(attributes: int, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch) as caught:
        OldBatch(old_message(50, 1, attributes, None, value)).records()
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_flipped_bit_is_detected() -> None:
    raw = bytearray(bytes.fromhex(str(OLD[0]["hex"])))
    raw[-1] ^= 1
    assert [batch.crc_ok() for batch in all_batches(raw)] == [True, False]


@given(st.sampled_from(OLD), st.integers(0, 200), st.integers(0, 255), st.integers(0, 120))
def test_mutations_raise_only_corrupt_batch(
    vector: dict[str, object], position: int, byte: int, end: int
) -> None:
    raw = bytearray(bytes.fromhex(str(vector["hex"])))
    raw[position % len(raw)] = byte
    try:
        for batch in all_batches(raw[:end] if end % 3 == 0 else raw):
            batch.crc_ok()
            list(batch.records(1 << 20))
    except KafkaError as error:
        assert error.code in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.MESSAGE_TOO_LARGE,
        )


def test_the_header_checksum_of_lz4_frames() -> None:
    assert short_xxhash32(b"") == 0x02CC5D05
    assert short_xxhash32(b"\x60\x40") >> 8 & 0xFF == 0x82
    frame = compress(Codec.LZ4, b"data")
    broken = frame[:6] + b"\x1a" + frame[7:]
    assert repair_lz4_header(broken) == frame
    assert repair_lz4_header(b"short") == b"short"
