"""Building batches byte for byte as Apache Kafka does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.batch.build import build, build_empty
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import BatchView

from .samples import RECORDED, START, numbered, record_lists, vectors


@pytest.mark.parametrize("vector", vectors("batches"), ids=lambda v: f"{v['codec']} {v['kind']}")
def test_built_bytes_equal_those_of_apache_kafka(vector: dict[str, object]) -> None:
    # M-E2.  Our zstd is a newer one and writes the content size first, so its bytes differ.
    recorded = bytes.fromhex(str(vector["hex"]))
    codec = Codec[str(vector["codec"]).upper()]
    kind = str(vector["kind"])
    if kind.startswith("control"):
        built = build_marker(
            EndTransactionMarker(commit=True, coordinator_epoch=7),
            timestamp=START,
            producer_id=4000,
            producer_epoch=2,
            base_offset=100,
            leader_epoch=5,
        )
    else:
        owned = kind != "plain"
        built = build(
            RECORDED,
            leader_epoch=5,
            codec=codec,
            producer_id=4000 if owned else -1,
            producer_epoch=2 if owned else -1,
            base_sequence=17 if owned else -1,
            transactional=kind == "transactional",
        )
    if codec is Codec.ZSTD:
        assert BatchView(built).payload() == BatchView(recorded).payload()
    else:
        assert bytes(built) == recorded


@given(record_lists(), st.sampled_from(list(Codec)), st.sampled_from(list(TimestampType)))
def test_a_built_batch_is_read_back(
    records: list[Record], codec: Codec, timestamp_type: TimestampType
) -> None:
    view = BatchView(build(records, codec=codec, timestamp_type=timestamp_type))
    assert view.crc_ok()
    assert view.codec is codec
    assert view.max_timestamp == max(record.timestamp for record in records)
    assert (view.base_offset, view.last_offset) == (records[0].offset, records[-1].offset)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        records = [record._replace(timestamp=view.max_timestamp) for record in records]
    assert list(view.records()) == records


def test_a_cleaned_batch_keeps_its_offsets() -> None:
    kept = [numbered(10)[3], numbered(10)[7]]
    view = BatchView(build(kept, base_offset=0, last_offset=9))
    assert (view.base_offset, view.last_offset, view.record_count) == (0, 9, 2)
    assert list(view.records()) == kept


def test_an_empty_batch_keeps_the_producer_state() -> None:
    view = BatchView(
        build_empty(
            50,
            59,
            leader_epoch=3,
            max_timestamp=START,
            producer_id=9,
            producer_epoch=1,
            base_sequence=40,
            transactional=True,
        )
    )
    assert view.crc_ok()
    assert view.size == 61
    assert (view.base_offset, view.last_offset, view.last_sequence) == (50, 59, 49)
    assert (view.base_timestamp, view.max_timestamp, view.record_count) == (-1, START, 0)
    assert list(view.records()) == []


@pytest.mark.parametrize("offsets", [(5, 5), (5, 4)])
def test_offsets_must_grow(offsets: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="grow"):
        build([Record(offset, START) for offset in offsets])


def test_offsets_before_the_base_or_too_far_from_it_are_rejected() -> None:
    with pytest.raises(ValueError, match="is out of order"):
        build([Record(4, START)], base_offset=5)
    with pytest.raises(ValueError, match="do not fit"):
        build([Record(0, START), Record(2**31, START)])
    with pytest.raises(ValueError, match="at least one"):
        build([])


def test_extreme_times_and_offsets_survive() -> None:
    records = [
        Record(2**62, 2**63 - 1, b"a"),
        Record(2**62 + 1, 0, b"b"),
        Record(2**62 + 2**31 - 1, -1, b"c"),
    ]
    assert list(BatchView(build(records)).records()) == records
