"""The roles of a node in its quorum, each with what belongs to it alone.

What lives here: plain data; a role is replaced, never reused.  What may not: transitions (node.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from barnabas.raft.progress import Progress


@dataclass(slots=True)
class Unattached:
    """It knows an epoch, perhaps its own vote in it, and no leader."""

    epoch: int


@dataclass(slots=True)
class Candidate:
    """It asks for votes.  Its own counts once it is on stable storage."""

    epoch: int
    granted: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Leader:
    """A majority has voted for it; it alone appends in this epoch."""

    epoch: int
    progress: Progress


Role: TypeAlias = Unattached | Candidate | Leader
