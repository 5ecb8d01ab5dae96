"""The offset map: stores every key, however full it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.batch.engine.offset_map import BYTES_PER_ENTRY, PAGE_SLOTS, OffsetMap

from .twins import plain


def test_the_last_offset_of_a_key_is_found() -> None:
    offsets = OffsetMap(10)
    assert (offsets.get(b"a"), offsets.size, offsets.latest_offset) == (-1, 0, -1)
    offsets.put(b"a", 0)
    offsets.put(b"", 5)
    offsets.put(b"a", 7)
    assert (offsets.get(b"a"), offsets.get(b""), offsets.get(b"b")) == (7, 5, -1)
    assert (offsets.size, offsets.latest_offset) == (2, 7)


def test_it_works_to_the_last_slot() -> None:
    for slots in (1, 2, 7, 100):
        offsets = OffsetMap(slots)
        for number in range(slots):
            offsets.put(b"key-%d" % number, number)
        assert all(offsets.get(b"key-%d" % number) == number for number in range(slots))
        assert offsets.get(b"another") == -1
        with pytest.raises(ValueError, match="the offset map is full"):
            offsets.put(b"another", 1)
        offsets.put(b"key-0", 99)
        assert offsets.get(b"key-0") == 99


def test_an_entry_takes_24_bytes() -> None:
    assert BYTES_PER_ENTRY == 24
    with pytest.raises(ValueError, match="at least one slot"):
        OffsetMap(0)


def test_memory_is_allocated_a_page_at_a_time() -> None:
    offsets = OffsetMap(3 * PAGE_SLOTS + 1)
    assert [offsets.reserve(), offsets.reserve(), offsets.reserve(), offsets.reserve()] == [
        True,
        True,
        False,
        False,
    ]
    for number in range(1000):
        offsets.put(b"%d" % number, number)
    assert all(offsets.get(b"%d" % number) == number for number in range(1000))


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 2**62))), st.integers(0, 30))
def test_it_behaves_like_a_dict(entries: list[tuple[bytes, int]], spare: int) -> None:
    expected = dict(entries)
    for make in (OffsetMap, plain("offset_map").OffsetMap):
        offsets = make(max(1, len(expected) + spare))
        for key, offset in entries:
            offsets.put(key, offset)
        assert offsets.size == len(expected)
        assert all(offsets.get(key) == offset for key, offset in expected.items())
        assert offsets.get(b"x" * 21) == -1
