"""JoinGroup to a classic group: who may join, and what its joining sets in motion.

What lives here: new members, members that come back, and static members that replace their earlier selves
(KIP-345).  What may not: how the rebalance goes on (classic_rebalance.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.member import ClassicMember, SupportedProtocol, protocols_of
from barnabas.coordinator.group.classic.rebalance import Rebalances, joined, refused_join
from barnabas.coordinator.group.classic.records import group_entry, new_group_entry
from barnabas.coordinator.group.table import GroupKind
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import Random

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

UNKNOWN_MEMBER = ""
# From this version on a new member is given its id first and joins with it (KIP-394).
FIRST_VERSION_THAT_NEEDS_IDS = 4
# From this version on a leader may be told that nothing is to be assigned (KIP-814).
FIRST_VERSION_THAT_SKIPS = 9
# How long a member that nobody knows yet may wait for the others: its client cannot send heartbeats.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000

Answer = Promise[JoinGroupResponse]


class Joins:
    """Of all classic groups of a shard."""

    def __init__(self, machine: GroupMachine, rebalances: Rebalances) -> None:
        self._machine = machine
        self._rebalances = rebalances

    def join(
        self, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        """Into a classic group, or one to be made; an empty consumer group becomes one."""
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
        """The group itself is written, so that it is known after a fail-over too."""
        table = self._machine.table
        converted = table.get(request.group_id)
        tombstones = [] if converted is None else converted.tombstones()
        group = ClassicGroup(request.group_id, context.now_ms)
        table.put(group)
        decision = self._join(group, request, caller, context)

        def refused(error: KafkaError) -> None:
            self._rebalances.forget_group(group)
            if converted is None:
                table.remove(group.group_id)
            else:
                table.put(converted)

        entries = decision.entries or [new_group_entry(group)]
        return Decision([*tombstones, *entries], decision.reply, refused=refused)

    def _join(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        member_id = request.member_id
        if not _has_room(group, member_id, context.settings["group.max.size"]):
            self._rebalances.forget(group, member_id)
            # It may have been the last one that was waited for.
            entries = self._rebalances.maybe_complete(group, context)
            return Decision(entries, refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED))
        if group.state is ClassicState.DEAD:
            return Decision((), refused_join(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))
        if not group.supports(request.protocol_type, (one.name for one in request.protocols)):
            return Decision((), refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        if member_id == UNKNOWN_MEMBER:
            return self._join_unknown(group, request, caller, context)
        if member_id in group.pending_joins:
            return self._add(group, member_id, request, caller, context)
        return self._join_again(group, request, context)

    # New members

    def _join_unknown(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        instance_id = request.group_instance_id
        member_id = new_member_id(caller.client_id if instance_id is None else instance_id, context.random)
        if instance_id is not None:
            existing = group.static_members.get(instance_id)
            if existing is not None:
                return self._replace(group, existing, member_id, request, caller, context)
        elif caller.api_version >= FIRST_VERSION_THAT_NEEDS_IDS:
            group.pending_joins.add(member_id)
            self._rebalances.expect_sign(group, member_id, request.session_timeout_ms)
            return Decision((), refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return self._add(group, member_id, request, caller, context)

    def _add(
        self, group: ClassicGroup, member_id: str, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        member = ClassicMember.of_request(member_id, request, caller)
        member.is_new = True
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.has_newcomer = True
        answer: Answer = Promise()
        group.add(member, request.protocol_type)
        group.wait_for_join(member, answer)
        self._rebalances.expect_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        told = reason_of(request)
        self._note(group, member_id, told, context)
        reason = f"{member_id} joins (instance id {request.group_instance_id}; client's reason: {told})"
        return Decision(self._rebalances.rebalance_or_complete(group, reason, context), answer)

    # Members that come back

    def _join_again(
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
            # It may not have heard the answer of its first request.
            return Decision((), joined(group, member_id))
        if state is ClassicState.STABLE and is_same and not group.is_leader(member_id):
            return Decision((), joined(group, member_id))
        # A leader that joins again has seen a change that its members' subscriptions do not show, new
        # partitions for instance.
        answer: Answer = Promise()
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms)
        group.wait_for_join(member, answer)
        reason = f"{member_id} joins again during {state} (client's reason: {reason_of(request)})"
        return Decision(self._rebalances.rebalance_or_complete(group, reason, context), answer)

    # Static members that replace their earlier selves

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
        member = group.replace_static(instance_id, old_id, new_id)
        self._rebalances.expect_heartbeat(group, member)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms)
        answer: Answer = Promise()
        group.wait_for_join(member, answer)
        told = reason_of(request)
        self._note(group, new_id, f"takes the place of {old_id}; client's reason: {told}", context)
        reason = f"static member {instance_id} is now {new_id} (client's reason: {told})"
        if group.state is ClassicState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id at this moment.
            return Decision(self._rebalances.prepare(group, reason, context), answer)
        if group.state is not ClassicState.STABLE:
            return Decision(self._rebalances.maybe_complete(group, context), answer)
        if group.select_protocol() != group.protocol:
            return Decision(self._rebalances.rebalance_or_complete(group, reason, context), answer)

        # It goes on where its earlier self was: no rebalance, but the log must know its new id.
        def committed() -> None:
            if member.joining is None:
                return  # a rebalance has answered it meanwhile
            if caller.api_version >= FIRST_VERSION_THAT_SKIPS:
                group.answer_join(member, joined(group, new_id, skip_assignment=group.is_leader(new_id)))
                return
            # Who must not assign must not take itself for the leader: it hears the id of before.
            response = joined(group, new_id)
            response.leader, response.members = leader_before or "", []
            group.answer_join(member, response)

        def refused(error: KafkaError) -> None:
            logger.warning("group %s: %s could not be written: %s", shown(group.group_id), reason, error)
            self._restore(group, member, old_id, before)

        assignments = {one.member_id: one.assignment for one in group.members.values()}
        entries = [group_entry(group, assignments)]
        return Decision(entries, answer, committed=committed, refused=refused)

    def _restore(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        old_id: str,
        before: tuple[tuple[SupportedProtocol, ...], int, int],
    ) -> None:
        """The log does not know the new id, so nobody does."""
        if group.members.get(member.member_id) is not member or member.instance_id is None:
            return
        if member.joining is not None:
            member.joining = None  # the caller hears of the error
            group.joining_count -= 1
        group.update(member, *before)
        old = group.replace_static(member.instance_id, member.member_id, old_id)
        self._rebalances.expect_heartbeat(group, old)

    def _note(self, group: ClassicGroup, member_id: str, reason: str, context: Context) -> None:
        self._machine.events.note(
            group.group_id,
            context.now_ms,
            EventKind.MEMBER_JOINED,
            who=member_id,
            reason=reason,
            generation=group.generation,
        )


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    member = group.members.get(member_id)
    if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # Those who have joined count, not those who are members: the limit may have been lowered.
        return (member is not None and member.joining is not None) or group.joining_count < max_size
    return member is not None or len(group.members) < max_size


def reason_of(request: JoinGroupRequest) -> str:
    return request.reason or "not provided"


def new_member_id(prefix: str, random: Random) -> str:
    """The client's or the instance's id and a random UUID."""
    raw = bytearray(random.bytes(16))
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
