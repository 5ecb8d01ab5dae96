"""The voters and the `kraft.version` by offset: both are effective once written, committed or not (KIP-853).

A follower that truncates its log returns to the voters that were effective before.
"""

from __future__ import annotations

from typing import TypeVar

from barnabas.base.ids import Uuid
from barnabas.batch.control import QuorumMessage
from barnabas.protocol.records.control import KRaftVersionRecord, VotersRecord
from barnabas.raft.voters import Voters

# The voters were configured, or set when the directory was formatted; no record in the log contains them.
NOT_IN_LOG = -1

_Value = TypeVar("_Value")


class VoterHistory:
    """The voter sets of the log that may still be needed, oldest first."""

    __slots__ = ("_versions", "_voters", "kraft_version", "voters")

    def __init__(self, voters: Voters, kraft_version: int, offset: int = NOT_IN_LOG) -> None:
        self._voters: list[tuple[int, Voters]] = [(offset, voters)]
        self._versions: list[tuple[int, int]] = [(offset, kraft_version)]
        # The last of each: asked for at every step.
        self.voters = voters
        self.kraft_version = kraft_version

    @property
    def voters_offset(self) -> int:
        """The offset of the last voters record; NOT_IN_LOG if there is none."""
        return self._voters[-1][0]

    def voters_at(self, offset: int) -> Voters:
        """The voters that were effective after the record at this offset."""
        return _at(self._voters, offset)

    def kraft_version_at(self, offset: int) -> int:
        return _at(self._versions, offset)

    def may_be_voter(self, node_id: int, directory_id: Uuid, committed: int) -> bool:
        """Whether a node is a voter now, or again if the changes from this offset on are undone."""
        for offset, voters in reversed(self._voters):
            if voters.has(node_id, directory_id):
                return True
            if offset < committed:
                break
        return False

    def append(self, offset: int, message: QuorumMessage | None) -> None:
        """Replay a control record of the log."""
        match message:
            case VotersRecord():
                self.voters = Voters.of_record(message)
                self._voters.append((offset, self.voters))
            case KRaftVersionRecord():
                self.kraft_version = message.kraft_version
                self._versions.append((offset, self.kraft_version))

    def truncate(self, end_offset: int) -> None:
        """Forget what records from this offset on said."""
        self.voters = _truncate(self._voters, end_offset)
        self.kraft_version = _truncate(self._versions, end_offset)

    def forget_before(self, offset: int) -> None:
        """A snapshot contains everything below this offset."""
        _forget_before(self._voters, offset)
        _forget_before(self._versions, offset)


def _truncate(history: list[tuple[int, _Value]], end_offset: int) -> _Value:
    """Returns the last value that is left."""
    while len(history) > 1 and history[-1][0] >= end_offset:
        history.pop()
    return history[-1][1]


def _forget_before(history: list[tuple[int, _Value]], offset: int) -> None:
    while len(history) > 1 and history[1][0] < offset:
        del history[0]


def _at(history: list[tuple[int, _Value]], offset: int) -> _Value:
    for start, value in reversed(history):
        if start <= offset:
            return value
    return history[0][1]
