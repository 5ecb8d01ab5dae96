"""RemoveRaftVoter (api key 81).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, string, uuid


class RemoveRaftVoterRequest(Message, key=81, versions=(0, 0), flexible=0):
    """Removes a controller from the voters."""

    cluster_id: string | None
    voter_id: int32
    voter_directory_id: uuid


class RemoveRaftVoterResponse(Message, key=81, versions=(0, 0), flexible=0):
    """Whether it was removed."""

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
