"""Sequence numbers of a producer in a partition: behind the largest, 2^31 - 1, comes 0 again."""

from __future__ import annotations

from barnabas.batch.records import NO_SEQUENCE
from barnabas.batch.view import MAX_SEQUENCE


def sequence_after(sequence: int, count: int = 1) -> int:
    """The number that comes so many records later; 0 after NO_SEQUENCE."""
    return (sequence + count) & MAX_SEQUENCE


def is_later(sequence: int, former: int) -> bool:
    """Whether a number comes after another: within half of all numbers, as they go round."""
    return former == NO_SEQUENCE or 0 < (sequence - former) & MAX_SEQUENCE <= MAX_SEQUENCE // 2
