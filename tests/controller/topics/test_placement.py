"""Placement of replicas."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.topics.placement import UsableBroker, place
from barnabas.runtime.random import SeededRandom

BROKERS = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9
).map(lambda drawn: [UsableBroker(index, rack, fenced) for index, (rack, fenced) in enumerate(drawn)])


@given(BROKERS, st.integers(1, 9), st.integers(1, 12), st.integers(0, 999))
def test_each_partition_has_distinct_brokers_and_an_unfenced_leader(
    brokers: list[UsableBroker], factor: int, partitions: int, seed: int
) -> None:
    alive = {broker.id for broker in brokers if not broker.fenced}
    if not alive or factor > len(brokers):
        with pytest.raises(KafkaError):
            place(brokers, partitions, factor, SeededRandom(seed))
        return
    for replicas in place(brokers, partitions, factor, SeededRandom(seed)):
        assert len(set(replicas)) == factor
        assert replicas[0] in alive


@given(st.integers(0, 999))
def test_replicas_are_spread_over_racks_and_leaders_over_brokers(seed: int) -> None:
    # M-E1
    brokers = [UsableBroker(index, f"rack-{index % 3}", False) for index in range(6)]
    placed = place(brokers, 6, 3, SeededRandom(seed))
    for replicas in placed:
        assert {brokers[broker].rack for broker in replicas} == {"rack-0", "rack-1", "rack-2"}
    assert Counter(broker for replicas in placed for broker in replicas) == dict.fromkeys(range(6), 3)
    one_rack = [UsableBroker(index, None, False) for index in range(5)]
    leaders = Counter(replicas[0] for replicas in place(one_rack, 10, 2, SeededRandom(seed)))
    assert leaders == dict.fromkeys(range(5), 2)


def test_fenced_brokers_come_last() -> None:
    brokers = [UsableBroker(1, None, True), UsableBroker(2, None, False), UsableBroker(3, None, False)]
    for replicas in place(brokers, 8, 3, SeededRandom(1)):
        assert replicas[2] == 1


@pytest.mark.parametrize(
    ("brokers", "factor", "message"),
    [
        ([UsableBroker(1, None, True)], 1, "All brokers are currently fenced."),
        (
            [UsableBroker(1, None, False)],
            2,
            "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered.",
        ),
        (
            [UsableBroker(1, None, False)],
            0,
            "Invalid replication factor 0: the replication factor must be positive.",
        ),
    ],
)
def test_impossible_placements_are_rejected(brokers: list[UsableBroker], factor: int, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        place(brokers, 1, factor, SeededRandom(1))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.value.message == message


RECORDED = json.loads((Path(__file__).parents[2] / "data/vectors/placement.json").read_text())
MULTIPLIER, INCREMENT = 2862933555777941757, 3037000493


class _JavaRandom(SeededRandom):
    """The numbers of the `java.util.Random` that the recording used: a generator of its own, 31 bits each."""

    def __init__(self, state: int) -> None:
        super().__init__(0)
        self._state = state

    def integer(self, low: int, high: int) -> int:
        bound = high - low + 1
        number = self._next()
        if bound & (bound - 1) == 0:
            return low + (bound * number >> 31)
        while number - number % bound + bound - 1 >= 1 << 31:
            number = self._next()
        return low + number % bound

    def _next(self) -> int:
        self._state = (self._state * MULTIPLIER + INCREMENT) % (1 << 64)
        return self._state >> 33


@pytest.mark.parametrize("vector", RECORDED, ids=range(len(RECORDED)))
def test_placements_are_those_of_apache_kafka(vector: dict[str, Any]) -> None:
    """Recorded from StripedReplicaPlacer of Apache Kafka 4.1.0, with and without racks and fenced brokers."""
    brokers = [UsableBroker(broker_id, rack, fenced) for broker_id, rack, fenced in vector["brokers"]]
    expected = vector["placed"]
    random = _JavaRandom(vector["seed"])
    assert place(brokers, len(expected), vector["replication_factor"], random) == expected
