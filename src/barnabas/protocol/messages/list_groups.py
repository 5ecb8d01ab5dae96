"""ListGroups (api key 16).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, string


class ListGroupsRequest(Message, key=16, versions=(0, 5), flexible=3):
    """Groups of this broker, by state and type."""

    states_filter: list[string] = field("4+", default=[])
    types_filter: list[string] = field("5+", default=[])


class ListGroupsResponse(Message, key=16, versions=(0, 5), flexible=3):
    """The groups with protocol, state and type."""

    class ListedGroup(Message):
        group_id: string
        protocol_type: string
        group_state: string = field("4+", default="", ignorable=True)
        group_type: string = field("5+", default="", ignorable=True)

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16
    groups: list[ListedGroup]
