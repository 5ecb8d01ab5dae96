"""The leader's view of its voters' log end offsets, and the high watermark that follows from them."""

from __future__ import annotations

from barnabas.raft.voters import Voters


class Progress:
    """End offsets on stable storage, by voter; only the leader of an epoch keeps one."""

    __slots__ = ("_ends", "epoch_start", "high_watermark", "voters")

    def __init__(self, voters: Voters, epoch_start: int) -> None:
        self.voters = voters
        self.epoch_start = epoch_start
        self.high_watermark: int | None = None
        self._ends: dict[int, int] = {}

    def end_of(self, voter_id: int) -> int | None:
        """Returns None until the voter has reported an offset in this epoch."""
        return self._ends.get(voter_id)

    def advance(self, voter_id: int, end_offset: int) -> bool:
        """Record a voter's durable end offset; returns whether the high watermark moved."""
        self._ends[voter_id] = max(end_offset, self._ends.get(voter_id, 0))
        reached = self._majority_end()
        # A record of an earlier epoch is committed only once a record of this epoch follows it: Raft, section
        # 5.4.2, where an older record on a majority can still be overwritten.
        if reached is None or reached <= self.epoch_start:
            return False
        if self.high_watermark is not None and reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    def _majority_end(self) -> int | None:
        """The offset that a majority has reached."""
        known = sorted((self._ends[voter] for voter in self.voters.ids if voter in self._ends), reverse=True)
        majority = self.voters.majority
        return known[majority - 1] if len(known) >= majority else None
