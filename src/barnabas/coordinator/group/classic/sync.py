"""SyncGroup and Heartbeat for classic groups.

The rebalance itself belongs in `rebalance`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Changes, Context, Decision
from barnabas.coordinator.group.classic.changes import ClassicChanges
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.rebalance import Rebalances, sync_response
from barnabas.coordinator.group.classic.records import group_entry
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.runtime.loop.promise import Promise

logger = logging.getLogger(__name__)


class SyncDecisions:
    """SyncGroup and Heartbeat decisions for all classic groups of a shard."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    # SyncGroup

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, context: Context
    ) -> Decision[SyncGroupResponse]:
        """Members wait until the leader has sent the assignment and it is committed."""
        _check_sync(group, request)
        member = group.members[request.member_id]
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        changes = self._rebalances.changes(group, context)
        self._rebalances.member_synced(changes, member.member_id)
        if group.state is ClassicState.STABLE:
            return changes.decision(sync_response(group, member))
        promise: Promise[SyncGroupResponse] = Promise()
        changes.wait_for_sync(member.member_id, promise)
        if not group.is_leader(member.member_id):
            return changes.decision(promise)
        return self._assign(changes, request, promise)

    def _assign(
        self, changes: ClassicChanges, request: SyncGroupRequest, promise: Promise[SyncGroupResponse]
    ) -> Decision[SyncGroupResponse]:
        """The assignment may omit members: they get an empty one."""
        group, context = changes.group, changes.context
        assignments = {entry.member_id: bytes(entry.assignment) for entry in request.assignments}
        left_out = sum(member_id not in assignments for member_id in group.members)
        if left_out:
            logger.warning(
                "group %s: the leader assigned nothing to %d of %d members in generation %d",
                shown(group.group_id),
                left_out,
                len(group.members),
                group.generation,
            )
        changes.write([group_entry(group, assignments)])
        generation = (group.group_id, group.generation)
        return changes.decision(
            promise,
            committed=partial(self._assignment_committed, *generation, assignments, context),
            refused=partial(self._assignment_failed, *generation, request.member_id, context),
        )

    def _assignment_committed(
        self, group_id: str, generation: int, assignments: Mapping[str, bytes], context: Context
    ) -> None:
        """Called when the assignment is committed."""
        changes = self._completing(group_id, generation, context)
        if changes is not None:
            self._rebalances.assign(changes, assignments)
            changes.apply_soft_state()

    def _assignment_failed(
        self, group_id: str, generation: int, leader_id: str, context: Context, error: KafkaError
    ) -> None:
        """Called when the assignment could not be written: waiting members get the error and must rejoin."""
        changes = self._completing(group_id, generation, context)
        if changes is None:
            return
        leader = changes.group.members.get(leader_id)
        if leader is not None:
            self._rebalances.expect_heartbeat(changes, leader)
        self._rebalances.reset_assignments(changes, error.code)
        self._rebalances.rebalance_or_complete(changes, f"the assignment could not be written: {error}")
        assert not changes.entries, "a group whose leader has joined does not become empty"
        changes.apply_soft_state()

    def _completing(self, group_id: str, generation: int, context: Context) -> ClassicChanges | None:
        """Returns None if another member joined while the assignment was being written."""
        group = self._rebalances.classic(group_id)
        if group is None or group.generation != generation:
            return None
        if group.state is not ClassicState.COMPLETING_REBALANCE:
            return None
        return self._rebalances.changes(group, context)

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
        changes = Changes()
        changes.then(
            partial(self._rebalances.renew_session, group.group_id, group.members[request.member_id])
        )
        rebalances = group.state is ClassicState.PREPARING_REBALANCE
        code = ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE
        return changes.decision(HeartbeatResponse(error_code=code))


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.state is ClassicState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differ(request.protocol_type, group.type) or _differ(request.protocol_name, group.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _differ(requested: str | None, current: str | None) -> bool:
    """A missing value never differs."""
    return requested is not None and current is not None and requested != current
