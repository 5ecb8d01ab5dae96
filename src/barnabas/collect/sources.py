"""The interface between sources of lines and the collector."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol


class Lines(NamedTuple):
    """Lines that were read together."""

    # The path of a file, or the address of a sender.
    origin: str
    lines: list[bytes]
    # Identifies the part of the source to acknowledge, and its position after these lines.
    place: int
    position: int


class Source(Protocol):
    """A source of lines.  The collector requests the next ones only when it has capacity: a source must not
    read far ahead."""

    def read(self) -> AsyncGenerator[Lines, None]: ...

    def written(self, place: int, position: int) -> None:
        """Called when everything up to this position is in the topic."""
        ...

    def stop(self) -> None:
        """Stop reading; the iterator ends soon."""
        ...

    def close(self) -> None:
        """Called when nothing more will be written.  Raises OSError if the state for the next start cannot
        be saved."""
        ...
