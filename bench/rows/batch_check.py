"""Walking and checking every record of a batch, as a broker does on each produce."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from barnabas.batch.build import build
from barnabas.batch.engine.walk import walk
from barnabas.batch.view import BatchView
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.batch_samples import SMALL_BATCH, aiokafka, kafka_python, plain, rate, sample

INTERPRETED = "barnabas, interpreted"


@row(
    "batch-check",
    "Record check, 148 records",
    unit="records/s",
    goal=50,
    floor=50,
    against=INTERPRETED,
)
def batch_check(_bench: Workbench) -> Mapping[str, Contender]:
    batch = bytes(build(sample(SMALL_BATCH)))
    payload = BatchView(batch).payload()

    def others(module: object) -> None:
        for _ in module.DefaultRecordBatch(batch):  # type: ignore[attr-defined]
            pass

    return {
        OURS: lambda: rate(partial(walk, payload, SMALL_BATCH), SMALL_BATCH),
        INTERPRETED: lambda: rate(partial(plain("walk").walk, payload, SMALL_BATCH), SMALL_BATCH),
        "kafka-python": lambda: rate(partial(others, kafka_python()), SMALL_BATCH),
        "aiokafka": lambda: rate(partial(others, aiokafka()), SMALL_BATCH),
    }
