"""Sequence numbers go round."""

from __future__ import annotations

import pytest

from barnabas.batch.records import NO_SEQUENCE
from barnabas.batch.view import MAX_SEQUENCE
from barnabas.client.producer.sequences import is_later, sequence_after


@pytest.mark.parametrize(
    ("sequence", "count", "expected"),
    [(0, 1, 1), (NO_SEQUENCE, 1, 0), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 3, 1), (5, 0, 5)],
)
def test_what_comes_after(sequence: int, count: int, expected: int) -> None:
    assert sequence_after(sequence, count) == expected


@pytest.mark.parametrize(
    ("sequence", "former", "later"),
    [
        (0, NO_SEQUENCE, True),
        (5, 4, True),
        (4, 4, False),
        (4, 5, False),
        (0, MAX_SEQUENCE, True),
        (3, MAX_SEQUENCE - 1, True),
        (MAX_SEQUENCE, 0, False),
        (MAX_SEQUENCE // 2, 0, True),
        (MAX_SEQUENCE // 2 + 1, 0, False),
    ],
)
def test_which_of_two_is_later(sequence: int, former: int, later: bool) -> None:
    assert is_later(sequence, former) is later
