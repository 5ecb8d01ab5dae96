"""What a broker's absence does to partitions."""

from __future__ import annotations

import pytest

from barnabas.cli.cluster.health import (
    PartitionState,
    absence_of,
    behind,
    closed_to_writes,
    counted,
    named,
)


def state(replicas: str, isr: str, min_isr: int = 1, name: str = "t-0") -> PartitionState:
    brokers = tuple(map(int, replicas)), tuple(map(int, isr))
    return PartitionState(name, brokers[1][0] if isr else None, *brokers, min_isr)


@pytest.mark.parametrize(
    ("partition", "only_replica", "last_in_sync", "below_min_isr"),
    [
        (state("123", "123", 2), False, False, False),
        (state("123", "12", 2), False, False, True),
        (state("123", "23", 2), False, False, False),  # 1 is not in sync: nothing changes without it
        (state("123", "1", 2), False, True, False),
        (state("123", "", 2), False, True, False),
        (state("1", "1"), True, False, False),
        (state("23", "2"), False, False, False),
        (state("12", "12", 2), False, False, False),  # There are no others that could be waited for.
        (state("12", "12", 1), False, False, False),
    ],
)
def test_why_broker_1_may_not_stop(
    partition: PartitionState, *, only_replica: bool, last_in_sync: bool, below_min_isr: bool
) -> None:
    """M-D9: it waits for others to be in sync as long as that can help."""
    absence = absence_of(1, [partition])
    found = (bool(absence.only_replica), bool(absence.last_in_sync), bool(absence.below_min_isr))
    assert found == (only_replica, last_in_sync, below_min_isr)


def test_partitions_that_need_all_their_replicas() -> None:
    every = [state("12", "12", 2, "a-0"), state("12", "12", 1, "b-0"), state("1", "1", 1, "c-0")]
    assert [partition.name for partition in closed_to_writes(1, every)] == ["a-0"]
    assert closed_to_writes(3, every) == []


def test_replicas_that_are_behind() -> None:
    every = [state("12", "2", name="a-0"), state("12", "12", name="b-0"), state("23", "2", name="c-0")]
    assert [partition.name for partition in behind(1, every)] == ["a-0"]
    assert [partition.name for partition in behind(3, every)] == ["c-0"]


def test_a_message_names_a_few_partitions_and_counts_the_others() -> None:
    every = [state("1", "1", name=f"t-{number}") for number in range(5)]
    assert named(every[:2]) == "t-0, t-1"
    assert named(every[:4]) == "t-0, t-1, t-2 and 1 more partition"
    assert named(every) == "t-0, t-1, t-2 and 2 more partitions"
    assert counted(0, "replica") == "0 replicas"
