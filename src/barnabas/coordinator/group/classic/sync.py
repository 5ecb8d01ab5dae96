"""SyncGroup, Heartbeat and LeaveGroup of a classic group.

What lives here: the leader's assignment and who waits for it, signs of life, and members that go.  What may
not: how the rebalance goes on (classic_rebalance.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.rebalance import Rebalances, synced
from barnabas.coordinator.group.classic.records import group_entry
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)


class Syncs:
    """Of all classic groups of a shard."""

    def __init__(self, machine: GroupMachine, rebalances: Rebalances) -> None:
        self._machine = machine
        self._rebalances = rebalances

    # SyncGroup

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, context: Context
    ) -> Decision[SyncGroupResponse]:
        """Members wait until the leader has handed in the assignment and it is committed."""
        _check_sync(group, request)
        member = group.members[request.member_id]
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        if group.state is ClassicState.STABLE:
            self._rebalances.synced(group, member.member_id)
            return Decision((), synced(group, member))
        answer: Promise[SyncGroupResponse] = Promise()
        member.syncing = answer
        self._rebalances.synced(group, member.member_id)
        if not group.is_leader(member.member_id):
            return Decision((), answer)
        return self._assign(group, request, answer, context)

    def _assign(
        self,
        group: ClassicGroup,
        request: SyncGroupRequest,
        answer: Promise[SyncGroupResponse],
        context: Context,
    ) -> Decision[SyncGroupResponse]:
        """An assignment may be empty, and members may be left out of it: they get an empty one."""
        assignments = {one.member_id: bytes(one.assignment) for one in request.assignments}
        left_out = sum(member_id not in assignments for member_id in group.members)
        if left_out:
            logger.warning(
                "group %s: the leader assigns nothing to %d of %d members in generation %d",
                shown(group.group_id),
                left_out,
                len(group.members),
                group.generation,
            )
        generation = group.generation

        def is_current() -> bool:
            """Another member may have joined while the assignment was being written."""
            return group.state is ClassicState.COMPLETING_REBALANCE and group.generation == generation

        def committed() -> None:
            if is_current():
                self._rebalances.assign(group, assignments, context)

        def refused(error: KafkaError) -> None:
            if is_current():
                self._rebalances.reset_assignments(group, error.code)
                reason = f"the assignment could not be written: {error}"
                entries = self._rebalances.rebalance_or_complete(group, reason, context)
                assert not entries, "a group whose leader is there does not become empty"

        return Decision([group_entry(group, assignments)], answer, committed=committed, refused=refused)

    # Heartbeat

    def heartbeat(
        self, group: ClassicGroup, request: HeartbeatRequest, context: Context
    ) -> Decision[HeartbeatResponse]:
        if group.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if group.state is ClassicState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._rebalances.expect_heartbeat(group, group.members[request.member_id])
        rebalances = group.state is ClassicState.PREPARING_REBALANCE
        code = ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE
        return Decision((), HeartbeatResponse(error_code=code))

    # LeaveGroup

    def leave(
        self, group: ClassicGroup, members: Sequence[LeaveGroupRequest.MemberIdentity], context: Context
    ) -> Decision[LeaveGroupResponse]:
        """Each for itself; the others rebalance once."""
        if group.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answers = [left(member, self._leave_one(group, member, context)) for member in members]
        removed = [answer.member_id for answer in answers if not answer.error_code]
        entries: list[Entry] = []
        if removed:
            reason = f"{', '.join(removed)} left by request"
            if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                entries = self._rebalances.rebalance_or_complete(group, reason, context)
            elif group.state is ClassicState.PREPARING_REBALANCE:
                entries = self._rebalances.maybe_complete(group, context)
        return Decision(entries, LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers))

    def _leave_one(
        self, group: ClassicGroup, told: LeaveGroupRequest.MemberIdentity, context: Context
    ) -> ErrorCode:
        member_id, instance_id = told.member_id, told.group_instance_id
        if not member_id:
            # An administrator removes a static member by its name.
            known = None if instance_id is None else group.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_joins:
            self._rebalances.forget(group, member_id)
            return ErrorCode.NONE
        else:
            try:
                group.validate_member(member_id, instance_id)
            except KafkaError as error:
                return error.code
        self._rebalances.dismiss(group, group.members[member_id])
        self._machine.events.note(
            group.group_id,
            context.now_ms,
            EventKind.MEMBER_LEFT,
            who=member_id,
            reason=told.reason or "not provided",
            generation=group.generation,
        )
        return ErrorCode.NONE


def left(told: LeaveGroupRequest.MemberIdentity, code: ErrorCode) -> LeaveGroupResponse.MemberResponse:
    return LeaveGroupResponse.MemberResponse(
        member_id=told.member_id, group_instance_id=told.group_instance_id, error_code=code
    )


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.state is ClassicState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differ(request.protocol_type, group.type) or _differ(request.protocol_name, group.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _differ(told: str | None, known: str | None) -> bool:
    """What is not told differs from nothing."""
    return told is not None and known is not None and told != known
