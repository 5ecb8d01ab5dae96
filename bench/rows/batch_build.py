"""Building a batch from records, as a producer does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from barnabas.batch.build import build
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.batch_samples import SMALL_BATCH, START_MS, aiokafka, kafka_python, plain, rate, sample


@row("batch-build", "Batch build, 148 records", unit="records/s")
def batch_build(_bench: Workbench) -> Mapping[str, Contender]:
    records = sample(SMALL_BATCH)

    def others(module: object) -> None:
        builder = module.DefaultRecordBatchBuilder(  # type: ignore[attr-defined]
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 20,
        )
        for record in records:
            builder.append(record.offset, record.timestamp, record.key, record.value, [])
        builder.build()

    return {
        OURS: lambda: rate(lambda: build(records), SMALL_BATCH),
        "barnabas, interpreted": lambda: rate(
            lambda: plain("encode").encode_records(records, 0, START_MS), SMALL_BATCH
        ),
        "kafka-python": lambda: rate(partial(others, kafka_python()), SMALL_BATCH),
        "aiokafka": lambda: rate(partial(others, aiokafka()), SMALL_BATCH),
    }
