"""The changes of one decision about a classic group: a copy of the group, entries, responses and timers.

The copy replaces the group, and waiting members get their responses, when the decision is accepted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.decision import Changes, Context
from barnabas.coordinator.events import EventKind, Events
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.table import GroupTable
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.runtime.loop.promise import Promise


class ClassicChanges(Changes):
    """Changes of one group.  `group` is a copy, invisible to others until the decision is accepted."""

    __slots__ = ("_events", "context", "group")

    def __init__(self, group: ClassicGroup, table: GroupTable, events: Events, context: Context) -> None:
        super().__init__()
        self.group = group.copy()
        self.context = context
        self._events = events
        self.then(partial(table.put, self.group))

    def note(self, kind: EventKind, who: str = "", reason: str = "") -> None:
        """Record an event with the group's current generation."""
        group = self.group
        note = partial(self._events.note, group.group_id, self.context.now_ms, kind)
        self.then(partial(note, who=who, reason=reason, generation=group.generation))

    # Waiting requests

    def wait_for_join(self, member_id: str, reply: Promise[JoinGroupResponse]) -> None:
        """An earlier request of the same member gets no response: its connection is considered dead."""
        self.group.change(replace(self.group.members[member_id], joining=reply))

    def wait_for_sync(self, member_id: str, reply: Promise[SyncGroupResponse]) -> None:
        self.group.change(replace(self.group.members[member_id], syncing=reply))

    def complete_join(self, member_id: str, response: JoinGroupResponse) -> None:
        """Complete the member's JoinGroup, if it is waiting."""
        member = self.group.members[member_id]
        if member.joining is not None:
            self.group.change(replace(member, joining=None))
            self.then(partial(member.joining.set, response))

    def complete_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Complete the member's SyncGroup if it is waiting; returns whether it was."""
        member = self.group.members[member_id]
        if member.syncing is None:
            return False
        self.group.change(replace(member, syncing=None))
        self.then(partial(member.syncing.set, response))
        return True

    # Members

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> None:
        """A static member rejoined with a new id (KIP-345).  Waiting requests of the old id are fenced."""
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.complete_join(old_id, refused_join(fenced, old_id))
        self.complete_sync(old_id, SyncGroupResponse(error_code=fenced, assignment=b""))
        self.group.replace_static(instance_id, old_id, new_id)


def refused_join(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=[])
