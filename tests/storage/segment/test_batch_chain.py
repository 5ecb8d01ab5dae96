"""Which batches count as valid by their CRCs and by the offsets around them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.batch.view import BatchHeader, CorruptBatch, patch_offsets
from barnabas.storage.log.log_options import LONG_MAX
from barnabas.storage.segment.batch_chain import valid_batches
from tests.storage.logs import batch


def pieces(*base_offsets: int, damaged: int | None = None) -> list[tuple[int, bytes, list[BatchHeader]]]:
    """Batches of two records each, at these offsets; one of them may have a wrong CRC."""
    data = bytearray()
    starts = []
    for number, base_offset in enumerate(base_offsets):
        one = batch(2)
        patch_offsets(one, 0, base_offset, 0)
        if number == damaged:
            one[-1] ^= 1
        starts.append(len(data))
        data += one
    return [(0, bytes(data), [BatchHeader(start, data, start) for start in starts])]


def valid(
    base_offsets: Sequence[int],
    last_offset: int | None = 9,
    limit: int = LONG_MAX,
    *,
    damaged: int | None = None,
    is_log_end: bool = False,
    gaps_end: int = LONG_MAX,
) -> tuple[list[int], str]:
    found: list[int] = []
    try:
        for one in valid_batches(
            pieces(*base_offsets, damaged=damaged),
            last_offset,
            limit,
            is_log_end=is_log_end,
            gaps_end=gaps_end,
        ):
            found.append(one.header.base_offset)
    except CorruptBatch as error:
        return found, error.message
    return found, ""


def test_batches_that_follow_each_other_are_sound() -> None:
    assert valid([10, 12, 14]) == ([10, 12, 14], "")
    assert valid([], None) == ([], "")


def test_gaps_are_reported_but_prove_nothing() -> None:
    found = list(valid_batches(pieces(10, 20, 22), 9, LONG_MAX))
    assert [one.after_gap for one in found] == [False, True, False]
    assert [one.after_gap for one in valid_batches(pieces(10), None, LONG_MAX)] == [False]


@pytest.mark.parametrize(
    ("offsets", "last_offset", "expected"),
    [
        ([10, 500, 14], 9, [10]),  # the one that leapt ahead is damaged
        ([10, 12, 11], 9, [10, 12]),  # the one that goes back is
        ([10, 20, 3], 9, [10, 20]),  # it does not even follow the first: the gap may be right
        ([10, 9, 14], 9, [10]),
        ([9, 10], 9, []),
        ([20, 15], None, []),  # undecided which
    ],
)
def test_of_two_that_do_not_follow_each_other_the_damaged_one_ends_the_chain(
    offsets: list[int], last_offset: int | None, expected: list[int]
) -> None:
    found, fault = valid(offsets, last_offset)
    assert found == expected
    assert "do not fit those of adjacent batches" in fault


def test_a_wrong_crc_ends_the_chain() -> None:
    found, fault = valid([10, 12, 14], damaged=1)
    assert found == [10]
    assert "wrong CRC" in fault


def test_no_batch_reaches_the_next_segment() -> None:
    assert valid([10, 12], limit=14) == ([10, 12], "")
    assert valid([10, 12], limit=13)[0] == [10]


def test_the_last_batch_of_a_log_may_not_leap_beyond_the_gaps_that_are_known() -> None:
    """Nobody comes after it to confirm its offset."""
    assert valid([10, 20], is_log_end=True, gaps_end=19)[0] == [10]
    assert valid([10, 20], is_log_end=True, gaps_end=20) == ([10, 20], "")
    assert valid([10, 20], is_log_end=True) == ([10, 20], "")
    assert valid([10, 20], gaps_end=0) == ([10, 20], "")  # the next segment confirms it
    assert valid([10, 20, 22], damaged=2, gaps_end=0)[0] == [10]
    assert valid([10, 20, 22], is_log_end=True, gaps_end=0) == ([10, 20, 22], "")
