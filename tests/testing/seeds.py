"""The seeds of every scenario that `make test` runs; the campaigns of `make sim` run more.

They come in chunks, one test each, so that the processes of pytest-xdist share them.
"""

from __future__ import annotations

SEEDS = 300


def chunks(size: int, seeds: int = SEEDS) -> list[range]:
    """All seeds, `size` at a time."""
    return [range(first, min(first + size, seeds)) for first in range(0, seeds, size)]


def chunk_name(seeds: range) -> str:
    """The name of a chunk's test."""
    return f"{seeds.start}-{seeds.stop - 1}"
