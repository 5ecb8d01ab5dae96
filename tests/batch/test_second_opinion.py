"""The same batches in other clients' code."""

from __future__ import annotations

import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder

from barnabas.batch.build import build
from barnabas.batch.check import CheckRules, check_batch, only_batch
from barnabas.batch.compression import Codec
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView

from .samples import RECORDED, START, numbered

with warnings.catch_warnings():
    # It reads its own files through a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

RECORDS = [record._replace(offset=record.offset - 100) for record in RECORDED] + [
    record._replace(offset=record.offset + 4) for record in numbered(300)
]


def converted(record: object) -> Record:
    return Record(
        record.offset,  # type: ignore[attr-defined]
        record.timestamp,  # type: ignore[attr-defined]
        record.key,  # type: ignore[attr-defined]
        record.value,  # type: ignore[attr-defined]
        tuple(record.headers),  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_kafka_python_reads_ours(codec: Codec) -> None:
    read = MemoryRecords(bytes(build(RECORDS, codec=codec)))
    batch = read.next_batch()
    assert batch.validate_crc()
    assert [converted(record) for record in batch] == RECORDS


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_aiokafka_reads_ours(codec: Codec) -> None:
    batch = AioBatch(bytes(build(RECORDS, codec=codec)))
    assert batch.validate_crc()
    assert [converted(record) for record in batch] == RECORDS


@pytest.mark.parametrize(
    ("writer", "codec"),
    [(AioBuilder, codec) for codec in Codec] + [(PythonBuilder, codec) for codec in (Codec.NONE, Codec.GZIP)],
)
def test_we_read_theirs(writer: type, codec: Codec) -> None:
    builder = writer(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    view = BatchView(bytes(builder.build()))
    assert view.crc_ok()
    assert view.codec is codec
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (5, 1, 9)
    assert list(view.records()) == RECORDS
    checked = check_batch(only_batch(view.copy(), 12), CheckRules(), now_ms=START)
    assert not checked.rewritten
