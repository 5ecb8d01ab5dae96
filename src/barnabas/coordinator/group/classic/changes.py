"""What one decision about a classic group gathers: the group as it will be, entries, replies and timers.

What lives here: a copy of the group to work on, and the soft changes that are made when the decision is
accepted: the copy takes the group's place, members that waited are answered.  What may not: which changes are
due (classic_join.py, classic_sync.py, classic_rebalance.py).
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
    """Of one group.  `group` is the copy: nobody else sees it before the decision is accepted."""

    __slots__ = ("_events", "context", "group")

    def __init__(self, group: ClassicGroup, table: GroupTable, events: Events, context: Context) -> None:
        super().__init__()
        self.group = group.copy()
        self.context = context
        self._events = events
        self.then(partial(table.put, self.group))

    def note(self, kind: EventKind, who: str = "", reason: str = "") -> None:
        """An event, of the generation that the group is in by now."""
        group = self.group
        note = partial(self._events.note, group.group_id, self.context.now_ms, kind)
        self.then(partial(note, who=who, reason=reason, generation=group.generation))

    # Requests that wait

    def wait_for_join(self, member_id: str, reply: Promise[JoinGroupResponse]) -> None:
        """An earlier request of the same member is never answered: its connection is taken for dead."""
        self.group.change(replace(self.group.members[member_id], joining=reply))

    def wait_for_sync(self, member_id: str, reply: Promise[SyncGroupResponse]) -> None:
        self.group.change(replace(self.group.members[member_id], syncing=reply))

    def answer_join(self, member_id: str, response: JoinGroupResponse) -> None:
        """If it waits."""
        member = self.group.members[member_id]
        if member.joining is not None:
            self.group.change(replace(member, joining=None))
            self.then(partial(member.joining.set, response))

    def answer_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """If it waits; whether it does."""
        member = self.group.members[member_id]
        if member.syncing is None:
            return False
        self.group.change(replace(member, syncing=None))
        self.then(partial(member.syncing.set, response))
        return True

    # Members

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> None:
        """A static member came back under a new id (KIP-345).  A request of its old self is fenced."""
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(old_id, refused_join(fenced, old_id))
        self.answer_sync(old_id, SyncGroupResponse(error_code=fenced, assignment=b""))
        self.group.replace_static(instance_id, old_id, new_id)


def refused_join(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=[])
