"""Sequence numbers of a producer in a partition: 2^31 - 1 is followed by 0."""

from __future__ import annotations

from barnabas.batch.records import NO_SEQUENCE
from barnabas.batch.view import MAX_SEQUENCE


def sequence_after(sequence: int, count: int = 1) -> int:
    """Return the sequence number `count` records later; 0 after NO_SEQUENCE."""
    return (sequence + count) & MAX_SEQUENCE


def is_later(sequence: int, former: int) -> bool:
    """Whether a number follows another, modulo 2^31: within half of the range."""
    return former == NO_SEQUENCE or 0 < (sequence - former) & MAX_SEQUENCE <= MAX_SEQUENCE // 2
