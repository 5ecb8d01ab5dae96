"""The roles of a node in its quorum: plain data, replaced on every transition (see node.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from barnabas.raft.progress import Progress


@dataclass(slots=True)
class Unattached:
    """Knows the epoch, perhaps its own vote in it, but no leader."""

    epoch: int


@dataclass(slots=True)
class Candidate:
    """Requests votes.  Its own vote counts once it is on stable storage."""

    epoch: int
    granted: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Leader:
    """Elected by a majority; the only node that appends in this epoch."""

    epoch: int
    progress: Progress


Role: TypeAlias = Unattached | Candidate | Leader
