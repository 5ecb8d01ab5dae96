"""Decodes a fetched batch: to columns, and to one object per record as other clients do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from barnabas.batch.build import build
from barnabas.batch.columnar import columns
from barnabas.batch.view import BatchView
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.batch_samples import LARGE_BATCH, aiokafka, kafka_python, plain, rate, sample


@row("batch-columns", "Columnar decode, 10,000 records", unit="records/s")
def batch_columns(_bench: Workbench) -> Mapping[str, Contender]:
    batch = bytes(build(sample(LARGE_BATCH)))
    payload = BatchView(batch).payload()

    def interpreted() -> None:
        module = plain("columns")
        vectors = module.ColumnVectors(LARGE_BATCH)
        module.decode_columns(payload, 0, len(payload), 0, 0, LARGE_BATCH, 0, 0, False, vectors)

    def objects() -> None:
        for _ in BatchView(batch).records():
            pass

    def others(module: object) -> None:
        for record in module.DefaultRecordBatch(batch):  # type: ignore[attr-defined]
            _ = record.offset, record.timestamp, record.key, record.value

    return {
        OURS: lambda: rate(lambda: columns(batch), LARGE_BATCH),
        "barnabas, interpreted": lambda: rate(interpreted, LARGE_BATCH),
        "barnabas, an object a record": lambda: rate(objects, LARGE_BATCH),
        "kafka-python": lambda: rate(partial(others, kafka_python()), LARGE_BATCH),
        "aiokafka": lambda: rate(partial(others, aiokafka()), LARGE_BATCH),
    }
