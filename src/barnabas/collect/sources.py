"""What every source of lines has.

What lives here: the interface between sources and the collector.  What may not: any kind of source.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol


class Lines(NamedTuple):
    """Lines that were read together."""

    # Where they come from: the path of a file, or the address of who sent them.
    origin: str
    lines: list[bytes]
    # Tells the source apart that is to hear when they are written; and where it stands after them.
    place: int
    position: int


class Source(Protocol):
    """Lines, as long as there are any.  The collector asks for the next only when it has room for them: a
    source must not read far ahead."""

    def read(self) -> AsyncGenerator[Lines, None]: ...

    def written(self, place: int, position: int) -> None:
        """Everything up to this position is in the topic."""
        ...

    def stop(self) -> None:
        """Read no more; the iterator ends soon."""
        ...

    def close(self) -> None:
        """All is written that ever will be.  OSError if what the next start needs cannot be kept."""
        ...
