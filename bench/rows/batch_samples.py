"""Shared by the rows about record batches: the batch, the engine as plain Python, the timer."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from barnabas.batch import engine
from barnabas.batch.records import Record

START_MS = 1700000000000
# 148 records of about 100 bytes fill a batch of 16 KB, the default of producers.
SMALL_BATCH = 148
LARGE_BATCH = 10_000
ENOUGH_S = 0.15

PLAIN_ENGINE = "plain_engine"
# In import order.
MODULES = ("faults", "varints", "walk", "decode", "encode", "columns")


def sample(count: int) -> list[Record]:
    return [Record(index, START_MS + index // 10, b"k%05d" % index, b"v" * 90) for index in range(count)]


def plain(name: str) -> ModuleType:
    """A module of the engine as plain Python, whichever engine this process uses."""
    if PLAIN_ENGINE not in sys.modules:
        package = ModuleType(PLAIN_ENGINE)
        package.__path__ = []
        sys.modules[PLAIN_ENGINE] = package
        for each in MODULES:
            path = Path(engine.__file__).with_name(f"{each}.py")
            source = path.read_text("utf-8").replace(f"{engine.__name__}.", f"{PLAIN_ENGINE}.")
            module = ModuleType(f"{PLAIN_ENGINE}.{each}")
            sys.modules[module.__name__] = module
            exec(compile(source, str(path), "exec"), module.__dict__)
    return sys.modules[f"{PLAIN_ENGINE}.{name}"]


def rate(work: Callable[[], object], count: int) -> float:
    """Operations per second if each call of `work` does `count`; the clock is read twice."""
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        elapsed = time.perf_counter() - start
        if elapsed >= ENOUGH_S:
            return calls * count / elapsed
        calls *= 4


def kafka_python() -> Any:
    """The record classes of kafka-python, which warns when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka.record import default_records
    return default_records


def aiokafka() -> Any:
    """The record classes of aiokafka, compiled by Cython where its wheel has them."""
    from aiokafka.record import default_records

    return default_records
