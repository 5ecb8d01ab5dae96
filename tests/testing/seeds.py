"""The seeds of every scenario that `make test` plays; the campaigns of `make sim` play more.

They come in chunks, a test each, so that the processes of pytest-xdist share them.
"""

from __future__ import annotations

SEEDS = 300


def chunks(size: int) -> list[range]:
    """All seeds, `size` at a time."""
    return [range(first, min(first + size, SEEDS)) for first in range(0, SEEDS, size)]


def chunk_name(seeds: range) -> str:
    """What the test of a chunk is called."""
    return f"{seeds.start}-{seeds.stop - 1}"
