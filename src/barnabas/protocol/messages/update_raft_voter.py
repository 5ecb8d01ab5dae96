"""UpdateRaftVoter (api key 82).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import NEW, Message, field, int16, int32, string, uint16, uuid


class UpdateRaftVoterRequest(Message, key=82, versions=(0, 0), flexible=0):
    """A voter has new endpoints or versions."""

    class Listener(Message):
        name: string
        host: string
        port: uint16

    class KRaftVersionFeature(Message):
        min_supported_version: int16
        max_supported_version: int16

    cluster_id: string | None
    current_leader_epoch: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature = field(name="kRaftVersionFeature")


class UpdateRaftVoterResponse(Message, key=82, versions=(0, 0), flexible=0):
    """Whether they were accepted, and the current leader."""

    class CurrentLeader(Message):
        leader_id: int32 = field(default=-1)
        leader_epoch: int32 = field(default=-1)
        host: string
        port: int32

    throttle_time_ms: int32
    error_code: int16
    current_leader: CurrentLeader = field(tag=0, default=NEW)
