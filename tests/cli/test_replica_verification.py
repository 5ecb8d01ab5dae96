"""Replicas are compared batch by batch; the lines are those of Apache Kafka's tool."""

from __future__ import annotations

from barnabas.cli.replica_verification import Batch, Fetched, compare


def replica(*batches: tuple[int, int], high_watermark: int = 10) -> Fetched:
    return Fetched(high_watermark, [Batch(*batch) for batch in batches])


def test_equal_replicas() -> None:
    both = {1: replica((4, 7), (9, 8)), 2: replica((4, 7), (9, 8))}
    result = compare("t-0", 0, both)
    assert (result.next_offset, result.lag, result.faults) == (10, 0, [])


def test_only_what_all_replicas_have_is_compared() -> None:
    result = compare("t-0", 0, {1: replica((4, 7), (9, 8)), 2: replica((4, 7))})
    assert (result.next_offset, result.lag, result.faults) == (5, 5, [])
    # The second batch is above the high watermark that 2 knows of.
    result = compare("t-0", 0, {1: replica((4, 7), (9, 8)), 2: replica((4, 7), (9, 0), high_watermark=5)})
    assert (result.next_offset, result.lag, result.faults) == (5, 5, [])
    result = compare("t-0", 3, {1: replica(), 2: replica()})
    assert (result.next_offset, result.lag) == (3, 7)


def test_another_checksum_is_reported_and_the_comparison_continues() -> None:
    result = compare("t-0", 0, {1: replica((4, 7), (9, 8)), 2: replica((4, 6), (9, 8))})
    assert result.faults == [
        "partition t-0 has unmatched checksum at offset 4; replica 1's checksum 7; replica 2's checksum 6"
    ]
    assert (result.next_offset, result.is_hopeless) == (10, False)


def test_another_offset_ends_the_comparison() -> None:
    result = compare("t-0", 0, {1: replica((4, 7)), 2: replica((3, 7)), 3: replica((4, 7))})
    assert result.faults == ["partition t-0: replica 1's offset 4 doesn't match replica 2's offset 3"]
    assert (result.next_offset, result.is_hopeless) == (0, True)
