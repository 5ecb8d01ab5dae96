"""AddRaftVoter (api key 80).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string, uint16, uuid


class AddRaftVoterRequest(Message, key=80, versions=(0, 1), flexible=0):
    """Adds a controller to the voters of the metadata quorum."""

    class Listener(Message):
        name: string
        host: string
        port: uint16

    cluster_id: string | None
    timeout_ms: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: list[Listener]
    ack_when_committed: bool = field("1+", default=True)


class AddRaftVoterResponse(Message, key=80, versions=(0, 1), flexible=0):
    """Whether it was added."""

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
