"""Receive buffers are reused, and grow only with received bytes."""

from __future__ import annotations

from barnabas.runtime.network.buffers import (
    FIRST_FRAME_BUFFER_BYTES,
    MAX_POOLED_BUFFER_BYTES,
    MAX_POOLED_BYTES,
    BufferPool,
    LargeFrame,
)


def test_a_returned_buffer_is_reused() -> None:
    pool = BufferPool()
    buffer = pool.take(100_000)
    assert len(buffer) == 131_072
    pool.give(buffer)
    assert pool.pooled_bytes == 131_072
    assert pool.take(131_072) is buffer
    assert pool.pooled_bytes == 0


def test_the_pool_keeps_no_more_than_its_limit() -> None:
    pool = BufferPool()
    buffers = [pool.take(MAX_POOLED_BUFFER_BYTES) for _ in range(6)]
    for buffer in buffers:
        pool.give(buffer)
    assert pool.pooled_bytes == MAX_POOLED_BYTES


def test_a_huge_buffer_has_its_exact_size_and_is_not_kept() -> None:
    pool = BufferPool()
    buffer = pool.take(MAX_POOLED_BUFFER_BYTES + 1)
    assert len(buffer) == MAX_POOLED_BUFFER_BYTES + 1
    pool.give(buffer)
    assert pool.pooled_bytes == 0


def test_an_announced_size_alone_costs_little() -> None:
    frame = LargeFrame(BufferPool(), 100 << 20, memoryview(b"start"))
    assert len(frame.buffer) == FIRST_FRAME_BUFFER_BYTES
    while frame.filled < frame.size:
        space = frame.space()
        assert len(space) > 0
        assert len(frame.buffer) <= max(FIRST_FRAME_BUFFER_BYTES, 2 * frame.filled)
        space[:3] = b"abc"
        frame.filled += len(space)
    assert frame.filled == len(frame.buffer) == 100 << 20
    assert frame.view[:8] == b"startabc"


def test_space_never_reaches_past_the_frame() -> None:
    frame = LargeFrame(BufferPool(), 100_000, memoryview(bytes(40_000)))
    assert len(frame.space()) == 60_000
