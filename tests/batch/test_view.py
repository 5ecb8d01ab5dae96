"""Reading batches in place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import HEADER_SIZE, BatchView, CorruptBatch, batches, patch_offsets

from .samples import RECORDED, START, numbered, sealed, vectors, with_payload


@pytest.mark.parametrize("vector", vectors("batches"), ids=lambda v: f"{v['codec']} {v['kind']}")
def test_batches_that_apache_kafka_wrote_are_read(vector: dict[str, object]) -> None:
    # M-E2
    view = BatchView(bytes.fromhex(str(vector["hex"])))
    assert view.crc_ok()
    assert view.codec.config_name == vector["codec"]
    if view.is_control:
        assert view.is_transactional
        assert [record.key for record in view.records()] == [bytes((0, 0, 0, 1))]
        return
    assert list(view.records()) == RECORDED
    assert (view.base_offset, view.last_offset, view.next_offset) == (100, 103, 104)
    assert (view.leader_epoch, view.record_count) == (5, 4)
    assert (view.base_timestamp, view.max_timestamp) == (START, START + 10)
    assert view.producer_id == vector.get("producer_id", -1)
    assert view.producer_epoch == vector.get("producer_epoch", -1)
    assert view.base_sequence == vector.get("base_sequence", -1)
    assert view.last_sequence == (20 if view.has_producer_id else -1)
    assert view.is_transactional == (vector["kind"] == "transactional")
    assert view.timestamp_type is TimestampType.CREATE_TIME
    assert view.delete_horizon_ms is None
    assert view.copy() == bytes.fromhex(str(vector["hex"]))


def test_sequence_numbers_wrap_after_the_largest_int() -> None:
    batch = build(numbered(5), producer_id=1, producer_epoch=0, base_sequence=2**31 - 3)
    assert BatchView(batch).last_sequence == 1


def test_a_view_works_on_any_buffer_at_any_position() -> None:
    batch = build(numbered(3))
    for buffer in (bytes(batch), batch, memoryview(batch)):
        assert list(BatchView(buffer).records()) == numbered(3)
    padded = memoryview(b"xyz" + bytes(batch) + b"more")
    view = BatchView(padded, 3)
    assert view.crc_ok()
    assert list(view.records()) == numbered(3)
    assert view.copy() == bytes(batch)
    assert view.end == 3 + len(batch)


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = build(numbered(3), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=START + 777)
    view = BatchView(batch)
    assert view.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in view.records()] == [START + 777] * 3


def test_the_delete_horizon_is_stored_as_the_base_timestamp() -> None:
    # KIP-534: from when tombstones may be removed.
    view = BatchView(build(RECORDED, delete_horizon_ms=START + 99_999))
    assert view.delete_horizon_ms == START + 99_999
    assert list(view.records()) == RECORDED


def test_batches_yields_complete_batches_and_skips_an_incomplete_tail() -> None:
    first, second = build(numbered(2)), build(numbered(3))
    both = first + second
    assert [view.record_count for view in batches(both)] == [2, 3]
    for cut in range(len(first), len(both)):
        assert [view.record_count for view in batches(both[:cut])] == [2]
    assert list(batches(b"")) == []


@pytest.mark.parametrize("length", [13, 0, -1, -(2**31)])
def test_a_malformed_length_raises(length: int) -> None:
    batch = build(numbered(1))
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch) as caught:
        list(batches(batch))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [3, 7, 255])
def test_an_unknown_magic_raises(magic: int) -> None:
    batch = build(numbered(1))
    batch[16] = magic
    with pytest.raises(CorruptBatch, match=f"magic\\) {magic}"):
        list(batches(batch))


def test_old_formats_and_short_headers_are_no_v2_batches() -> None:
    batch = build(numbered(1))
    batch[16] = 1
    with pytest.raises(CorruptBatch, match="legacy"):
        BatchView(batch)
    short = sealed(build(numbered(1))[:40])
    with pytest.raises(CorruptBatch, match="61"):
        BatchView(short)
    with pytest.raises(CorruptBatch, match="cut short"):
        BatchView(build(numbered(1))[:-1])


def test_offsets_are_patched_outside_the_crc() -> None:
    buffer = bytearray(b"pad" + bytes(build(numbered(2))))
    patch_offsets(buffer, 3, 5000, 17)
    view = BatchView(buffer, 3)
    assert (view.base_offset, view.leader_epoch) == (5000, 17)
    assert view.crc_ok()
    assert [record.offset for record in view.records()] == [5000, 5001]


def test_every_flipped_bit_after_the_crc_is_detected() -> None:
    batch = build(numbered(2))
    for position in range(17, len(batch)):
        flipped = bytearray(batch)
        flipped[position] ^= 1 << (position % 8)
        assert not BatchView(flipped).crc_ok()
        with pytest.raises(CorruptBatch):
            BatchView(flipped).ensure_valid()


@pytest.mark.parametrize(
    ("payload", "count", "fault"),
    [
        (b"", 1, "counts 1 records in 0 bytes"),
        (bytes(7 * 3), 2**31 - 1, "counts 2147483647"),
        (b"\xff\xff\xff\xff\xff\x01\x00\x00\x00", 1, "variable-length number"),
        (bytes((40, 0, 0, 0, 1, 1, 0)), 1, "length reaches past"),
        (bytes((1, 0, 0, 0, 1, 1, 0)), 1, "length reaches past"),
        (bytes((12, 0, 0, 0, 30, 1, 0)), 1, "key reaches past"),
        (bytes((12, 0, 0, 0, 1, 30, 0)), 1, "value reaches past"),
        (bytes((12, 0, 0, 0, 1, 1, 2)), 1, "headers reach past"),
        (bytes((12, 0, 0, 0, 1, 1, 1)), 1, "headers reach past"),
        (bytes((14, 0, 0, 0, 1, 1, 0, 0)), 1, "fewer or more bytes"),
        (bytes((12, 0, 0, 0, 1, 1, 0)) * 2, 1, "bytes remain"),
    ],
)
def test_malformed_records_name_their_fault(payload: bytes, count: int, fault: str) -> None:
    with pytest.raises(CorruptBatch, match=fault) as caught:
        BatchView(with_payload(payload, count)).records()
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_header_key_that_is_not_utf8_is_returned_all_the_same() -> None:
    record = bytes((20, 0, 0, 0, 1, 1, 2, 4, 0xFF, 0x61, 1))
    (read,) = BatchView(with_payload(record, 1)).records()
    assert read == Record(0, START, None, None, (("\ufffda", None),))


@given(st.data())
def test_mutated_batches_raise_only_corrupt_batch(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(list(Codec)))
    batch = bytearray(build(RECORDED, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()) and len(batch) > HEADER_SIZE:
        del batch[data.draw(st.integers(HEADER_SIZE, len(batch))) :]
        batch = sealed(batch)
    try:
        for view in batches(batch):
            view.crc_ok()
            assert len(list(view.records(1 << 20))) == view.record_count
    except KafkaError as error:
        assert error.code in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.MESSAGE_TOO_LARGE,
        )
