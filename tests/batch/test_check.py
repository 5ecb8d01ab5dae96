"""Validation of a client's batch before it is written, with Apache Kafka's error codes."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.check import (
    CLIENT_DECOMPRESSED_LIMIT,
    RECORD_ERRORS_MAX,
    AppendOrigin,
    CheckedBatch,
    CheckRules,
    InvalidRecords,
    check_batch,
    only_batch,
)
from barnabas.batch.compression import Codec, compress
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import HEADER_SIZE, BatchView

from .samples import RECORDED, START, numbered, sealed, vectors, with_payload

DAY_MS = 86_400_000
LOG_APPEND = TimestampType.LOG_APPEND_TIME


def check(
    batch: bytes | bytearray, origin: AppendOrigin = AppendOrigin.CLIENT, version: int = 12, **rules: Any
) -> CheckedBatch:
    view = only_batch(batch, version)
    return check_batch(view, CheckRules(**rules), now_ms=START, origin=origin)


def refusal(batch: bytes | bytearray, version: int = 12, **rules: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        check(batch, version=version, **rules)
    return caught.value


def with_field(position: int, kind: str, value: int, batch: bytearray | None = None) -> bytearray:
    changed = build(numbered(3)) if batch is None else batch
    struct.pack_into(kind, changed, position, value)
    return sealed(changed) if position > 21 else changed


@pytest.mark.parametrize("codec", Codec)
def test_a_valid_batch_passes_in_place(codec: Codec) -> None:
    # M-E2: batches are stored as the producer compressed them.
    batch = build(numbered(20), codec=codec)
    before = bytes(batch)
    checked = check(batch)
    assert checked.view.buffer is batch
    assert bytes(batch) == before
    assert checked.max_timestamp == START + 19
    assert not checked.rewritten


@pytest.mark.parametrize("kind", ["plain", "idempotent", "transactional"])
def test_batches_of_real_clients_pass(kind: str) -> None:
    for vector in vectors("batches"):
        if vector["kind"] == kind:
            batch = bytearray(bytes.fromhex(str(vector["hex"])))
            batch[:8] = bytes(8)
            assert check(batch).view.buffer is batch


HOSTILE = {
    "bad crc": (with_field(17, ">I", 1), ErrorCode.CORRUPT_MESSAGE),
    "magic 7": (with_field(16, ">b", 7), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (with_field(16, ">b", -1), ErrorCode.CORRUPT_MESSAGE),
    "negative length": (with_field(8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    "length below any header": (with_field(8, ">i", 13), ErrorCode.CORRUPT_MESSAGE),
    "length below this header": (sealed(build(numbered(3))[:50]), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (with_field(16, ">b", 0), ErrorCode.INVALID_RECORD),
    "magic 1": (with_field(16, ">b", 1), ErrorCode.INVALID_RECORD),
    "nothing": (bytearray(), ErrorCode.INVALID_RECORD),
    "longer than what is there": (with_field(8, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    "two batches": (build(numbered(3)) * 2, ErrorCode.INVALID_RECORD),
    "a second, malformed batch": (build(numbered(3)) + bytes(30), ErrorCode.CORRUPT_MESSAGE),
    "count too high": (with_field(57, ">i", 4), ErrorCode.INVALID_RECORD),
    "count too low": (with_field(57, ">i", 2), ErrorCode.INVALID_RECORD),
    "count zero": (with_field(57, ">i", 0), ErrorCode.INVALID_RECORD),
    "count negative": (with_field(57, ">i", -1), ErrorCode.INVALID_RECORD),
    "last offset negative": (with_field(23, ">i", -1), ErrorCode.INVALID_RECORD),
    "count and offsets beyond the bytes": (with_payload(b"", 2**31 - 1), ErrorCode.INVALID_RECORD),
    "base offset set": (with_field(0, ">q", 5), ErrorCode.INVALID_RECORD),
    "control batch": (
        build_marker(
            EndTransactionMarker(commit=True, coordinator_epoch=0),
            timestamp=START,
            producer_id=1,
            producer_epoch=0,
        ),
        ErrorCode.INVALID_RECORD,
    ),
    "no sequence": (build(numbered(3), producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "record too long": (with_payload(bytes((40, 0, 0, 0, 1, 1, 0)), 1), ErrorCode.INVALID_RECORD),
    "record too short": (with_payload(bytes((14, 0, 0, 0, 1, 1, 0, 0)), 1), ErrorCode.INVALID_RECORD),
    "bytes after the records": (sealed(build(numbered(3)) + b"x"), ErrorCode.INVALID_RECORD),
    "unknown codec": (with_field(21, ">h", 5), ErrorCode.UNKNOWN_SERVER_ERROR),
    "no gzip": (with_field(21, ">h", Codec.GZIP), ErrorCode.UNKNOWN_SERVER_ERROR),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_batches_get_their_code(name: str) -> None:
    batch, code = HOSTILE[name]
    if name == "unknown codec" or name == "no gzip":
        batch = sealed(batch)
    assert refusal(bytes(batch)).code is code


def test_trailing_bytes_that_are_no_batch_are_ignored() -> None:
    assert check(bytes(build(numbered(2))) + b"tail").max_timestamp == START + 1


def test_zstd_needs_produce_version_7() -> None:
    batch = build(numbered(2), codec=Codec.ZSTD)
    assert refusal(batch, version=6).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert check(batch, version=7).max_timestamp == START + 1


def test_an_unknown_codec_has_one_code_in_every_version() -> None:
    """The check for zstd looked at the codec first, and versions below 7 got CORRUPT_MESSAGE."""
    batch = bytes(sealed(with_field(21, ">h", 7)))
    assert {refusal(batch, version=version).code for version in (3, 6, 7, 9)} == {
        ErrorCode.UNKNOWN_SERVER_ERROR
    }


def test_a_batch_larger_than_the_topic_allows() -> None:
    batch = build(numbered(100))
    assert check(batch, max_message_bytes=len(batch)).max_timestamp == START + 99
    assert refusal(batch, max_message_bytes=len(batch) - 1).code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_becomes_too_large_when_it_is_recompressed() -> None:
    batch = build([Record(i, START, b"k", bytes(1000)) for i in range(50)], codec=Codec.ZSTD)
    error = refusal(batch, compression=Codec.NONE, max_message_bytes=10_000)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_is_rejected_with_message_too_large(codec: Codec) -> None:
    header = build(numbered(1), codec=codec)[:HEADER_SIZE]
    bomb = sealed(header + compress(codec, bytes(CLIENT_DECOMPRESSED_LIMIT + 1)))
    error = refusal(bomb, max_message_bytes=8 << 20)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.trap
def test_a_compacted_topic_requires_keys() -> None:
    """Trap 20: INVALID_RECORD (no key on a compacted topic)."""
    records = [Record(0, START, b"k"), Record(1, START), Record(2, START, b""), Record(3, START)]
    error = refusal(build(records), compacted=True)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [each.index for each in error.record_errors] == [1, 3]
    assert "2 record errors" in error.message
    assert check(build(records)).max_timestamp == START


@pytest.mark.trap
def test_times_out_of_range() -> None:
    """Trap 20: INVALID_TIMESTAMP."""
    times = [START, START - DAY_MS - 1, START + 3_600_001, -1]
    batch = build([Record(index, time, b"k") for index, time in enumerate(times)])
    limits: dict[str, Any] = {"timestamp_before_max_ms": DAY_MS, "timestamp_after_max_ms": 3_600_000}
    error = refusal(batch, **limits)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [each.index for each in error.record_errors] == [1, 2]
    assert "out of range" in error.record_errors[0].message
    assert check(batch).max_timestamp == START + 3_600_001
    hidden = build([Record(0, -1, b"k"), Record(1, START - DAY_MS - 1, b"k")])
    assert refusal(hidden, **limits).code is ErrorCode.INVALID_TIMESTAMP
    sound = build([Record(0, -1, b"k"), Record(1, START - DAY_MS, b"k"), Record(2, START + 3_600_000, b"k")])
    assert check(sound, **limits).max_timestamp == START + 3_600_000


@pytest.mark.parametrize(
    ("times", "wrong"),
    [
        ([START - DAY_MS - 1, START], 0),
        ([START, START - DAY_MS - 1, START], 1),
        ([START, START + 3_600_001], 1),
        ([START + 3_600_001, START], 0),
    ],
    ids=["oldest first", "oldest in between", "newest last", "newest first"],
)
def test_the_oldest_and_the_newest_time_count(times: list[int], wrong: int) -> None:
    batch = build([Record(index, time, b"k") for index, time in enumerate(times)])
    error = refusal(batch, timestamp_before_max_ms=DAY_MS, timestamp_after_max_ms=3_600_000)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [each.index for each in error.record_errors] == [wrong]


def test_one_wrong_time_among_missing_keys_makes_it_invalid_timestamp() -> None:
    batch = build([Record(0, START), Record(1, START + 10, b"k")])
    error = refusal(batch, compacted=True, timestamp_after_max_ms=5)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [each.index for each in error.record_errors] == [0, 1]


def test_the_list_of_wrong_records_is_bounded() -> None:
    count = RECORD_ERRORS_MAX + 500
    error = refusal(build([Record(index, START) for index in range(count)]), compacted=True)
    assert isinstance(error, InvalidRecords)
    assert len(error.record_errors) == RECORD_ERRORS_MAX
    assert f"{count} record errors" in error.message


def test_timestamps_that_overflow_are_rejected() -> None:
    batch = build([Record(0, START, b"k"), Record(1, START + 5, b"k")])
    struct.pack_into(">q", batch, 27, 2**63 - 2)
    assert refusal(sealed(batch)).code is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_stamped() -> None:
    batch = build(numbered(3), codec=Codec.LZ4)
    checked = check(batch, timestamp_type=LOG_APPEND)
    assert checked.view.buffer is batch
    assert checked.view.crc_ok()
    assert checked.view.timestamp_type is LOG_APPEND
    assert checked.max_timestamp == checked.view.max_timestamp == START
    assert [record.timestamp for record in checked.view.records()] == [START] * 3
    # Out-of-range timestamps do not matter where the broker sets them.
    assert (
        check(build(numbered(3)), timestamp_type=LOG_APPEND, timestamp_after_max_ms=0).max_timestamp == START
    )


def test_a_client_may_not_stamp_log_append_time_itself() -> None:
    batch = build(numbered(2), timestamp_type=LOG_APPEND, log_append_time_ms=START)
    error = refusal(bytes(batch), timestamp_type=LOG_APPEND)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    # Where the topic keeps the client's timestamp, Apache Kafka resets the flag.
    checked = check(bytes(batch))
    assert checked.view.timestamp_type is TimestampType.CREATE_TIME
    assert checked.view.crc_ok()
    unset = build(numbered(2), timestamp_type=LOG_APPEND, log_append_time_ms=-1)
    assert refusal(bytes(unset)).code is ErrorCode.INVALID_TIMESTAMP


def test_a_wrong_max_timestamp_is_corrected() -> None:
    batch = bytes(with_field(35, ">q", START + 5_000_000))
    checked = check(batch)
    assert checked.max_timestamp == checked.view.max_timestamp == START + 2
    assert checked.view.crc_ok()
    # The given bytes are immutable, so the batch is a copy.
    assert checked.view.buffer is not batch
    assert not checked.rewritten


def test_a_read_only_view_is_copied_and_a_writable_one_is_not() -> None:
    batch = with_field(35, ">q", 0)
    read_only = memoryview(bytes(batch))
    assert check(read_only).view.buffer is not read_only  # type: ignore[arg-type]
    writable = memoryview(batch)
    assert check(writable).view.buffer is writable  # type: ignore[arg-type]


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_the_topic_decides_the_codec(source: Codec, target: Codec) -> None:
    records = [record._replace(offset=record.offset - 100) for record in RECORDED]
    fields = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5, "transactional": True}
    batch = build(records, codec=source, leader_epoch=3, **fields)  # type: ignore[arg-type]
    checked = check(batch, compression=target)
    view = checked.view
    assert checked.rewritten == (source is not target)
    assert view.crc_ok()
    assert view.codec is target
    assert list(view.records()) == records
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (7, 1, 5)
    assert view.is_transactional
    assert checked.max_timestamp == view.max_timestamp == START + 10
    if target is Codec.NONE:
        assert view.copy() == bytes(build(records, leader_epoch=3, **fields))  # type: ignore[arg-type]


def test_the_topic_decides_the_level() -> None:
    batch = build(numbered(300))
    small = check(batch, compression=Codec.GZIP, compression_level=9).view.size
    assert small < check(batch, compression=Codec.GZIP, compression_level=1).view.size


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_offset_deltas_with_gaps_are_renumbered(codec: Codec) -> None:
    records = [Record(0, START + 4, b"a"), Record(5, START, b"b"), Record(9, START + 2, b"c")]
    batch = build(records, codec=codec)
    struct.pack_into(">i", batch, 23, 2)
    checked = check(sealed(batch))
    assert checked.rewritten
    assert list(checked.view.records()) == [r._replace(offset=i) for i, r in enumerate(records)]
    assert checked.view.base_timestamp == START + 4
    assert checked.view.crc_ok()


def test_a_first_time_delta_that_is_not_zero_is_rebased_when_rewritten() -> None:
    records = numbered(3)
    batch = build([Record(0, START - 50, b"x"), *[r._replace(offset=r.offset + 1) for r in records]])
    # Remove the first record, so that the remaining timestamps do not start at the base timestamp.
    first = HEADER_SIZE + 1 + batch[HEADER_SIZE] // 2
    shifted = batch[:HEADER_SIZE] + batch[first:]
    struct.pack_into(">i", shifted, 23, 2)
    struct.pack_into(">i", shifted, 57, 3)
    checked = check(sealed(shifted), compression=Codec.GZIP)
    assert list(checked.view.records()) == records
    assert checked.view.base_timestamp == START


def test_markers_of_the_coordinator_pass_uncompressed() -> None:
    marker = build_marker(
        EndTransactionMarker(commit=False, coordinator_epoch=4),
        timestamp=START + 10**9,
        producer_id=1,
        producer_epoch=0,
    )
    view = BatchView(marker)
    rules = CheckRules(compression=Codec.ZSTD, compacted=True)
    checked = check_batch(view, rules, now_ms=START, origin=AppendOrigin.COORDINATOR)
    assert checked.view.buffer is marker
    assert checked.view.is_control
    assert checked.max_timestamp == START + 10**9


def test_a_raft_leader_appends_at_its_own_offsets() -> None:
    records = [record._replace(offset=record.offset + 500) for record in numbered(4)]
    view = BatchView(build(records, leader_epoch=9))
    checked = check_batch(view, CheckRules(), now_ms=START, origin=AppendOrigin.RAFT_LEADER)
    assert checked.view is view
