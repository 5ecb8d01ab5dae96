"""LeaveGroup for classic groups: of members that end, and of those that an administrator removes (KIP-345).

The rebalance that follows belongs in `rebalance`.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.classic.changes import ClassicChanges
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.rebalance import Rebalances
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


class LeaveDecisions:
    """LeaveGroup decisions for all classic groups of a shard."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def leave(
        self, group: ClassicGroup, members: Sequence[LeaveGroupRequest.MemberIdentity], context: Context
    ) -> Decision[LeaveGroupResponse]:
        """Each member leaves individually; the remaining ones rebalance once."""
        if group.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        changes = self._rebalances.changes(group, context)
        responses = [leave_response(member, self._leave_one(changes, member)) for member in members]
        removed = [promise.member_id for promise in responses if not promise.error_code]
        if removed:
            reason = f"{', '.join(removed)} left by request"
            if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                self._rebalances.rebalance_or_complete(changes, reason)
            elif group.state is ClassicState.PREPARING_REBALANCE:
                self._rebalances.maybe_complete(changes)
        return changes.decision(LeaveGroupResponse(error_code=ErrorCode.NONE, members=responses))

    def _leave_one(self, changes: ClassicChanges, identity: LeaveGroupRequest.MemberIdentity) -> ErrorCode:
        group = changes.group
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id:
            # An admin client removes a static member by its instance id.
            known = None if instance_id is None else group.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_joins:
            self._rebalances.remove_member(changes, member_id)
            return ErrorCode.NONE
        else:
            try:
                group.validate_member(member_id, instance_id)
            except KafkaError as error:
                return error.code
        self._rebalances.evict_member(changes, member_id)
        changes.note(EventKind.MEMBER_LEFT, member_id, identity.reason or "not provided")
        return ErrorCode.NONE


def leave_response(
    identity: LeaveGroupRequest.MemberIdentity, code: ErrorCode
) -> LeaveGroupResponse.MemberResponse:
    return LeaveGroupResponse.MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
    )
