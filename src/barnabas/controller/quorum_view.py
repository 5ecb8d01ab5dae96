"""What the controller needs to know of its quorum: the level of kraft.version, and who takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class QuorumView(Protocol):
    """The present state of the quorum; only its leader knows all of it."""

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, committed or not."""
        ...

    def upgrade_error(self, kraft_version: int) -> str | None:
        """Why kraft.version cannot be upgraded to this level; None if it can."""
        ...

    def has_left(self, controller_id: int) -> bool:
        """Whether a controller is no voter, and does not fetch the metadata log either."""
        ...

    def is_silent(self, controller_id: int) -> bool:
        """Whether a voter does not fetch the metadata log."""
        ...


@dataclass(frozen=True, slots=True)
class FixedQuorum:
    """A quorum that does not change: of one voter, or in a test."""

    kraft_version: int = 0
    # Why kraft.version cannot be upgraded.
    error: str | None = None
    left: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()

    def upgrade_error(self, kraft_version: int) -> str | None:
        return None if kraft_version == self.kraft_version else self.error

    def has_left(self, controller_id: int) -> bool:
        return controller_id in self.left

    def is_silent(self, controller_id: int) -> bool:
        return controller_id in self.silent
