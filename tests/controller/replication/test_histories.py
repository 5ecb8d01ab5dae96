"""Random histories of a cluster, record by record as Apache Kafka 4.1.0 decided them (cluster.md 10 to 14).

`make verify` compares new histories with Apache Kafka's own controller (tests/verify/quorum).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.controller.replication.histories import RECORDED_SEEDS, Plain, compared_steps, random_history


@pytest.fixture(scope="module")
def recorded(data: Path) -> dict[int, list[Plain]]:
    lines = gzip.decompress((data / "controller" / "histories.jsonl.gz").read_bytes()).splitlines()
    return {seed: json.loads(line) for seed, line in zip(RECORDED_SEEDS, lines, strict=True)}


def test_every_record_and_reply_is_that_of_apache_kafka(recorded: dict[int, list[Plain]]) -> None:
    # M-D1, M-D3, M-D4, M-D9
    compared = 0
    for seed, theirs in recorded.items():
        compared += compared_steps(random_history(seed).results, theirs)
    steps = sum(map(len, recorded.values()))
    assert compared > 0.85 * steps, "most histories are compared to their end"


def test_a_history_depends_on_its_seed_alone() -> None:
    assert random_history(7).steps == random_history(7).steps
    assert random_history(7).steps != random_history(8).steps
