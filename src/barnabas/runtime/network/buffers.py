"""Receive buffers: one shared by all connections, and a pool for large frames."""

from __future__ import annotations

# Maximum size of one read.
READ_BUFFER_BYTES = 256 << 10
# A larger frame gets its own buffer and is received directly into it.
LARGE_FRAME_BYTES = 64 << 10
# Buffers up to this size are kept for the next large frame; larger ones are freed.
MAX_POOLED_BUFFER_BYTES = 4 << 20
# Total size of all kept buffers.
MAX_POOLED_BYTES = 16 << 20
# The initial buffer of a large frame; after that it grows to twice the received bytes.  An announced size
# alone costs nothing.
FIRST_FRAME_BUFFER_BYTES = 2 << 20


class BufferPool:
    """Byte arrays in sizes of powers of two."""

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self.pooled_bytes = 0

    def take(self, size: int) -> bytearray:
        """At least `size` bytes, with arbitrary content."""
        capacity = 1 << (size - 1).bit_length()
        free = self._free.get(capacity)
        if free:
            self.pooled_bytes -= capacity
            return free.pop()
        return bytearray(capacity if capacity <= MAX_POOLED_BUFFER_BYTES else size)

    def give(self, buffer: bytearray) -> None:
        """Return a buffer to the pool; no view of it may remain."""
        capacity = len(buffer)
        if capacity > MAX_POOLED_BUFFER_BYTES or self.pooled_bytes + capacity > MAX_POOLED_BYTES:
            return
        self.pooled_bytes += capacity
        self._free.setdefault(capacity, []).append(buffer)


class LargeFrame:
    """A frame that is being received directly into its own buffer."""

    __slots__ = ("_pool", "buffer", "filled", "size", "view")

    def __init__(self, pool: BufferPool, size: int, start: memoryview) -> None:
        self.size = size
        self.filled = len(start)
        self._pool = pool
        self.buffer = pool.take(min(size, max(FIRST_FRAME_BUFFER_BYTES, 2 * self.filled)))
        self.view = memoryview(self.buffer)
        self.view[: self.filled] = start

    def space(self) -> memoryview:
        """Where the next bytes go: never past the frame's end, and never much ahead of the received bytes."""
        end = min(self.size, len(self.buffer))
        if self.filled == end:
            self._grow()
            end = min(self.size, len(self.buffer))
        return self.view[self.filled : end]

    def _grow(self) -> None:
        buffer = self._pool.take(min(self.size, 2 * self.filled))
        view = memoryview(buffer)
        view[: self.filled] = self.view[: self.filled]
        self.release()
        self.buffer, self.view = buffer, view

    def release(self) -> None:
        """Return the buffer to the pool."""
        self._pool.give(self.buffer)
