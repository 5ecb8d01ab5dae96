"""BrokerHeartbeat (api key 63).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Message, key=63, versions=(0, 1), flexible=0):
    """A broker's heartbeat, with its metadata offset and whether it wants to be fenced or shut down."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    current_metadata_offset: int64
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[uuid] = field("1+", tag=0, default=[])


class BrokerHeartbeatResponse(Message, key=63, versions=(0, 1), flexible=0):
    """Whether the broker is fenced, caught up and allowed to shut down."""

    throttle_time_ms: int32
    error_code: int16
    is_caught_up: bool = field(default=False)
    is_fenced: bool = field(default=True)
    should_shut_down: bool
