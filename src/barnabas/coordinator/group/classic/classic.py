"""Classic groups, as a component of the group machine.

Finds the group of a request, and rebuilds groups from records.  The protocol itself belongs in `join`,
`sync`, `leave` and `rebalance`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.classic.changes import ClassicChanges
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.join import JoinDecisions
from barnabas.coordinator.group.classic.leave import LeaveDecisions, leave_response
from barnabas.coordinator.group.classic.rebalance import Rebalances
from barnabas.coordinator.group.classic.records import group_from_record
from barnabas.coordinator.group.classic.sync import SyncDecisions
from barnabas.coordinator.group.component import GroupComponent
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.table import Group, not_found, wrong_kind
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.records.group import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

# From this version on a missing group is an error; before, it is described as dead (KIP-1043).
FIRST_VERSION_WITH_NOT_FOUND_ERROR = 6


class ClassicGroups(GroupComponent):
    """All classic groups of a shard."""

    keys: ClassVar[tuple[type[Message], ...]] = (GroupMetadataKey,)

    def __init__(self, machine: GroupMachine) -> None:
        super().__init__(machine)
        self.rebalances = Rebalances(machine)
        self._joins = JoinDecisions(machine, self.rebalances)
        self._syncs = SyncDecisions(self.rebalances)
        self._leaves = LeaveDecisions(self.rebalances)

    # Requests

    def join(
        self, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        group = self.machine.table.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.machine.consumer.classic.join(group, request, caller, context)
        return self._joins.join(request, caller, context)

    def sync(self, request: SyncGroupRequest, context: Context) -> Decision[SyncGroupResponse]:
        group = self._member_group(request.group_id)
        if group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(group, ConsumerGroup):
            return self.machine.consumer.classic.sync(group, request, context)
        return self._syncs.sync(group, request, context)

    def heartbeat(self, request: HeartbeatRequest, context: Context) -> Decision[HeartbeatResponse]:
        group = self._member_group(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.machine.consumer.classic.heartbeat(group, request)
        return self._syncs.heartbeat(group, request, context)

    def leave(self, request: LeaveGroupRequest, context: Context) -> Decision[LeaveGroupResponse]:
        """If the group does not exist, every member is unknown."""
        if self.machine.table.get(request.group_id) is None:
            responses = [leave_response(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in request.members]
            return Decision((), LeaveGroupResponse(error_code=ErrorCode.NONE, members=responses))
        group = self._member_group(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.machine.consumer.classic.leave(group, request, context)
        return self._leaves.leave(group, request.members, context)

    def _member_group(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """A request from a member of a group that does not exist fails with UNKNOWN_MEMBER_ID.

        A consumer group may have members that use the classic protocol (KIP-848).
        """
        group = self.machine.table.get(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        return group

    def describe(self, group_id: str, api_version: int) -> DescribeGroupsResponse.DescribedGroup:
        group = self.machine.table.get(group_id)
        if not isinstance(group, ClassicGroup):
            described = _described(group_id, ClassicState.DEAD)
            if api_version >= FIRST_VERSION_WITH_NOT_FOUND_ERROR:
                error = not_found(group_id) if group is None else wrong_kind(group_id, ClassicGroup)
                described.error_code, described.error_message = error.code, error.message
            return described
        protocol = group.protocol if group.state is ClassicState.STABLE else None
        described = _described(group_id, group.state)
        described.protocol_type = group.protocol_type
        described.protocol_data = protocol or ""
        described.members = [member.described(protocol) for member in group.ordered_members()]
        return described

    # Groups

    def get_or_create_simple(self, group_id: str) -> Group:
        """For a commit to a group that does not exist: a group without members, kept alive by its offsets."""
        known = self.machine.table.get(group_id)
        if known is None:
            known = ClassicGroup(group_id, None)
            self.machine.table.put(known)
        return known

    def take_over(self, group: ClassicGroup, context: Context, reason: str | None) -> ClassicChanges:
        """Start sessions for members that did not join here; with a reason, also start a rebalance."""
        changes = self.rebalances.changes(group, context)
        for member in group.members.values():
            self.rebalances.expect_heartbeat(changes, member)
        if reason is not None:
            self.rebalances.prepare(changes, reason)
            assert not changes.entries, "no member has joined yet"
        return changes

    def offsets_committed(self, group: Group, member_id: str) -> None:
        """A member's commit was accepted; in a classic group it also renews the session."""
        if isinstance(group, ClassicGroup) and group.commit_renews_session:
            member = group.members.get(member_id)
            if member is not None:
                self.rebalances.renew_session(group.group_id, member)

    # Durable state

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        """Live groups wrote the entry themselves: their state is replaced when the decision is accepted."""
        key, value = entry.key, entry.value
        assert isinstance(key, GroupMetadataKey), "the only key type of this component"
        known = self.machine.table.get(key.group)
        if value is None:
            if isinstance(known, ClassicGroup):
                self.rebalances.cancel_timers(known)
                self.machine.remove(key.group)
            return
        assert isinstance(value, GroupMetadataValue), "the value type of this key"
        if self.machine.is_loaded and isinstance(known, ClassicGroup):
            return
        self.machine.table.put(group_from_record(key.group, value))

    # Soft state

    def loaded(self, context: Context) -> None:
        max_size: int = context.settings["group.max.size"]
        for group in self.machine.table:
            if not isinstance(group, ClassicGroup) or not group.members:
                continue
            reason = None
            if len(group.members) > max_size:
                # The limit was lowered: the members that rejoin first stay.
                reason = f"{len(group.members)} members were loaded, only {max_size} are allowed"
            elif group.needs_rebalance:
                reason = "it was converted to a classic group and has not rebalanced since"
            self.take_over(group, context, reason).apply_soft_state()

    def dropped(self, error: KafkaError) -> None:
        """Discard all soft state: waiting requests fail with this error."""
        for group in self.machine.table:
            if isinstance(group, ClassicGroup):
                group.transition_to(ClassicState.DEAD, 0)
                for member in list(group.members.values()):
                    group.change(replace(member, joining=None, syncing=None))
                    for reply in (member.joining, member.syncing):
                        if reply is not None:
                            reply.fail(error)


def _described(group_id: str, state: ClassicState) -> DescribeGroupsResponse.DescribedGroup:
    return DescribeGroupsResponse.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )
