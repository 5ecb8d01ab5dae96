"""The file that stores a voter's epoch and vote.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int32, int64, string, uuid


class QuorumStateData(Message, versions=(0, 1), flexible=0):
    """Epoch, vote, leader and, in version 0, voters."""

    class Voter(Message):
        voter_id: int32

    cluster_id: string = field("0", default="")
    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)
    voted_id: int32 = field(default=-1)
    voted_directory_id: uuid = field("1+", default=ZERO_UUID)
    applied_offset: int64 = field("0", default=0)
    current_voters: list[Voter] | None = field("0", default=[])
