"""Splitting chunks into lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.collect.lines import LineCutter


def test_line_ends_do_not_belong_to_lines() -> None:
    cutter = LineCutter()
    assert cutter.cut(b"one\ntwo\r\n\nthr") == [b"one", b"two", b""]
    assert cutter.waiting_bytes == 3
    assert cutter.cut(b"ee\n") == [b"three"]
    assert cutter.end() == []


def test_the_last_line_may_have_no_end() -> None:
    cutter = LineCutter()
    assert cutter.cut(b"one\ntwo") == [b"one"]
    assert cutter.end() == [b"two"]
    assert cutter.end() == []


def test_a_line_end_may_come_in_two_parts() -> None:
    cutter = LineCutter()
    assert cutter.cut(b"one\r") == []
    assert cutter.cut(b"\ntwo\n") == [b"one", b"two"]


def test_a_line_without_end_takes_no_more_memory_than_its_limit() -> None:
    cutter = LineCutter(max_line_bytes=10)
    lines = [line for _ in range(100) for line in cutter.cut(b"x" * 7)]
    assert cutter.waiting_bytes <= 10
    assert b"".join([*lines, *cutter.end()]) == b"x" * 700
    assert max(map(len, lines)) == 10


@given(st.lists(st.binary(max_size=30)), st.integers(5, 40))
def test_nothing_is_lost_however_chunks_fall(chunks: list[bytes], most: int) -> None:
    cutter = LineCutter(max_line_bytes=most)
    lines = [line for chunk in chunks for line in cutter.cut(chunk)]
    lines += cutter.end()
    text = b"".join(chunks)
    assert b"".join(lines).replace(b"\r", b"") == text.replace(b"\n", b"").replace(b"\r", b"")
    assert all(len(line) <= most for line in lines)
