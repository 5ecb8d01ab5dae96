"""JoinGroup for classic groups.

Handles new members, rejoining members, and static members that replace their previous instance (KIP-345).
The rebalance itself belongs in `rebalance`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.classic.changes import refused_join
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.member import ClassicMember, protocols_of
from barnabas.coordinator.group.classic.rebalance import Rebalances, join_response
from barnabas.coordinator.group.classic.records import group_entry, new_group_entry
from barnabas.coordinator.group.table import GroupKind
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import Random

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

UNKNOWN_MEMBER = ""
# From this version on a new member first gets its member id and then joins with it (KIP-394).
FIRST_VERSION_REQUIRING_MEMBER_ID = 4
# From this version on the response can ask the leader to skip the assignment (KIP-814).
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9
# How long a new member may wait for the others: its client cannot send heartbeats yet.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000

JoinPromise = Promise[JoinGroupResponse]


class JoinDecisions:
    """JoinGroup decisions for all classic groups of a shard."""

    def __init__(self, machine: GroupMachine, rebalances: Rebalances) -> None:
        self._machine = machine
        self._rebalances = rebalances

    def join(
        self, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        """Join a classic group, creating it if necessary; an empty consumer group is converted."""
        table = self._machine.table
        known = table.get(request.group_id)
        if known is None or known.kind is GroupKind.CONSUMER:
            if request.member_id != UNKNOWN_MEMBER:
                return Decision((), refused_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return self._join_new_group(request, caller, context)
        assert isinstance(known, ClassicGroup), "there are two kinds of groups"
        return self._join(known, request, caller, context)

    def _join_new_group(
        self, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        """The group itself is written, so that it also exists after a failover."""
        converted = self._machine.table.get(request.group_id)
        tombstones = [] if converted is None else converted.tombstones()
        group = ClassicGroup(request.group_id, context.now_ms)
        decision = self._join(group, request, caller, context)
        return decision._replace(entries=[*tombstones, *(decision.entries or [new_group_entry(group)])])

    def _join(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        member_id = request.member_id
        if not _accepts_member(group, member_id, context.settings["group.max.size"]):
            changes = self._rebalances.changes(group, context)
            self._rebalances.remove_member(changes, member_id)
            # The rebalance may have been waiting only for this member.
            self._rebalances.maybe_complete(changes)
            return changes.decision(refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED))
        if group.state is ClassicState.DEAD:
            return Decision((), refused_join(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))
        if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            return Decision((), refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        if member_id == UNKNOWN_MEMBER:
            return self._join_new_member(group, request, caller, context)
        if member_id in group.pending_joins:
            return self._add(group, member_id, request, caller, context)
        return self._rejoin(group, request, context)

    # New members

    def _join_new_member(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        instance_id = request.group_instance_id
        member_id = new_member_id(caller.client_id if instance_id is None else instance_id, context.random)
        if instance_id is not None:
            existing = group.static_members.get(instance_id)
            if existing is not None:
                return self._replace(group, existing, member_id, request, caller, context)
        elif caller.api_version >= FIRST_VERSION_REQUIRING_MEMBER_ID:
            changes = self._rebalances.changes(group, context)
            changes.group.pending_joins |= {member_id}
            self._rebalances.start_session(changes, member_id, request.session_timeout_ms)
            return changes.decision(refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return self._add(group, member_id, request, caller, context)

    def _add(
        self, group: ClassicGroup, member_id: str, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        changes = self._rebalances.changes(group, context)
        group = changes.group
        member = ClassicMember.of_request(member_id, request, caller)
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        promise: JoinPromise = Promise()
        group.add(member, request.protocol_type)
        changes.wait_for_join(member_id, promise)
        self._rebalances.expect_heartbeat(changes, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        client_reason = reason_of(request)
        changes.note(EventKind.MEMBER_JOINED, member_id, client_reason)
        reason = (
            f"{member_id} joins (instance id {request.group_instance_id}; client's reason: {client_reason})"
        )
        self._rebalances.rebalance_or_complete(changes, reason)
        return changes.decision(promise)

    # Rejoining members

    def _rejoin(
        self, group: ClassicGroup, request: JoinGroupRequest, context: Context
    ) -> Decision[JoinGroupResponse]:
        member_id = request.member_id
        try:
            group.validate_member(member_id, request.group_instance_id)
        except KafkaError as error:
            return Decision((), refused_join(error.code, member_id))
        member = group.members[member_id]
        state = group.state
        if state is ClassicState.EMPTY:
            return Decision((), refused_join(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        is_same = member.protocols == protocols_of(request)
        if state is ClassicState.COMPLETING_REBALANCE and is_same:
            # It may not have received the response to its first request.
            return Decision((), join_response(group, member_id))
        if state is ClassicState.STABLE and is_same and not group.is_leader(member_id):
            return Decision((), join_response(group, member_id))
        # A leader rejoins after a change that its members' subscriptions do not show, such as new
        # partitions.
        promise: JoinPromise = Promise()
        changes = self._rebalances.changes(group, context)
        changes.group.change(_updated(member, request))
        changes.wait_for_join(member_id, promise)
        reason = f"{member_id} rejoins during {state} (client's reason: {reason_of(request)})"
        self._rebalances.rebalance_or_complete(changes, reason)
        return changes.decision(promise)

    # Static members that replace their previous instance

    def _replace(
        self,
        group: ClassicGroup,
        old_id: str,
        new_id: str,
        request: JoinGroupRequest,
        caller: Caller,
        context: Context,
    ) -> Decision[JoinGroupResponse]:
        instance_id = request.group_instance_id
        assert instance_id is not None, "only static members are replaced"
        leader_before = group.leader_id
        changes = self._rebalances.changes(group, context)
        group = changes.group
        changes.replace_static(instance_id, old_id, new_id)
        self._rebalances.expect_heartbeat(changes, group.members[new_id])
        group.change(_updated(group.members[new_id], request))
        promise: JoinPromise = Promise()
        changes.wait_for_join(new_id, promise)
        client_reason = reason_of(request)
        changes.note(EventKind.MEMBER_JOINED, new_id, f"replaces {old_id}; client's reason: {client_reason}")
        reason = f"static member {instance_id} is now {new_id} (client's reason: {client_reason})"
        if group.state is ClassicState.COMPLETING_REBALANCE:
            # The leader may currently be computing an assignment for the old id.
            self._rebalances.prepare(changes, reason)
        elif group.state is not ClassicState.STABLE:
            self._rebalances.maybe_complete(changes)
        elif group.select_protocol() != group.protocol:
            self._rebalances.rebalance_or_complete(changes, reason)
        else:
            # It continues with the old assignment: no rebalance, but the new id must be written.
            assignments = {member.member_id: member.assignment for member in group.members.values()}
            changes.write([group_entry(group, assignments)])
            can_skip = caller.api_version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT
            leader = None if can_skip else leader_before or ""
            return changes.decision(
                promise,
                committed=partial(self._static_member_replaced, group.group_id, new_id, leader, context),
                refused=partial(self._static_member_not_replaced, group.group_id, new_id, context),
            )
        return changes.decision(promise)

    def _static_member_replaced(
        self, group_id: str, new_id: str, leader_before: str | None, context: Context
    ) -> None:
        """Called when the new id of a static member is committed; responds with the current generation.

        The member must not act as the leader and compute an assignment.  If its version cannot skip
        the assignment, the response names the previous leader.
        """
        group = self._rebalances.classic(group_id)
        member = None if group is None else group.members.get(new_id)
        if group is None or member is None or member.joining is None:
            return  # a rebalance has completed it in the meantime
        changes = self._rebalances.changes(group, context)
        if leader_before is None:
            response = join_response(group, new_id, skip_assignment=group.is_leader(new_id))
        else:
            response = join_response(group, new_id)
            response.leader, response.members = leader_before, []
        changes.complete_join(new_id, response)
        changes.apply_soft_state()

    def _static_member_not_replaced(
        self, group_id: str, new_id: str, context: Context, error: KafkaError
    ) -> None:
        """Called when the new id of a static member was not committed.

        After a failed append the old id remains.  After a replication timeout the new id is in the log and
        remains; the request no longer waits, so heartbeats are expected until the client rejoins.
        """
        logger.warning(
            "group %s: the new member id %s could not be written: %s", shown(group_id), shown(new_id), error
        )
        group = self._rebalances.classic(group_id)
        member = None if group is None else group.members.get(new_id)
        if group is None or member is None or member.joining is None:
            return
        changes = self._rebalances.changes(group, context)
        changes.group.change(replace(member, joining=None))
        self._rebalances.expect_heartbeat(changes, member)
        changes.apply_soft_state()


def _updated(member: ClassicMember, request: JoinGroupRequest) -> ClassicMember:
    """Apply the fields of a JoinGroup from an existing member."""
    return replace(
        member,
        protocols=protocols_of(request),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
    )


def _accepts_member(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    member = group.members.get(member_id)
    if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # Only joined members count, not all members: the limit may have been lowered.
        return (member is not None and member.joining is not None) or group.joining_count < max_size
    return member is not None or len(group.members) < max_size


def reason_of(request: JoinGroupRequest) -> str:
    return request.reason or "not provided"


def new_member_id(prefix: str, random: Random) -> str:
    """The client id or instance id, followed by a random UUID."""
    raw = bytearray(random.bytes(16))
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
