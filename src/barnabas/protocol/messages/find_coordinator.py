"""FindCoordinator (api key 10).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class FindCoordinatorRequest(Message, key=10, versions=(0, 6), flexible=3):
    """Requests the coordinators of groups, transactions or share states."""

    key: string = field("0-3", default="")
    key_type: int8 = field("1+", default=0)
    coordinator_keys: list[string] = field("4+", default=[])


class FindCoordinatorResponse(Message, key=10, versions=(0, 6), flexible=3):
    """The coordinator of each key."""

    class Coordinator(Message):
        key: string
        node_id: int32
        host: string
        port: int32
        error_code: int16
        error_message: string | None

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = field("0-3", default=0)
    error_message: string | None = field("1-3", default="", ignorable=True)
    node_id: int32 = field("0-3", default=0)
    host: string = field("0-3", default="")
    port: int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", default=[])
