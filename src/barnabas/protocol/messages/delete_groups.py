"""DeleteGroups (api key 42).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, string


class DeleteGroupsRequest(Message, key=42, versions=(0, 2), flexible=2):
    """Empty groups to delete."""

    groups_names: list[string]


class DeleteGroupsResponse(Message, key=42, versions=(0, 2), flexible=2):
    """The outcome for each group."""

    class DeletableGroupResult(Message):
        group_id: string
        error_code: int16

    throttle_time_ms: int32
    results: list[DeletableGroupResult]
