"""Members that leave or time out.

Removes members from a group, and converts the group to a classic one if only classic members remain.  The
timers belong in `timeouts`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from barnabas.base.errors import ErrorCode
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Changes, Context, Decision
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.joining import check_instance, known_static
from barnabas.coordinator.group.consumer.member import LEAVE_GROUP_STATIC_MEMBER_EPOCH, ConsumerMember
from barnabas.coordinator.group.consumer.timeouts import Timeouts
from barnabas.coordinator.group.conversion.conversion import (
    can_downgrade,
    downgrade_entries,
    to_classic_group,
)
from barnabas.coordinator.group.subscription.subscription import (
    TopicHashes,
    count_names,
    count_one,
    count_regex,
)
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

R = TypeVar("R")


class LeaveDecisions:
    """Leave decisions for all consumer groups of a shard."""

    def __init__(self, machine: GroupMachine, hashes: TopicHashes) -> None:
        self._machine = machine
        self._hashes = hashes
        self.timeouts = Timeouts(machine.timers, machine.table, self._expire)

    def leave(
        self, request: ConsumerGroupHeartbeatRequest, context: Context
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """A static member may leave temporarily: it keeps its partitions until its session expires."""
        group = self._machine.table.find_kind(request.group_id, ConsumerGroup)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = known_static(group.static_member(request.instance_id), request.instance_id)
            check_instance(member, request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        if request.instance_id is None or request.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            return self.fence(group, [member], response, "left", EventKind.MEMBER_LEFT, context)
        changes = Changes()
        static_leave = replace(member, member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, pending_revocation={})
        changes.write((entries.current_assignment(group.group_id, static_leave),))
        self._note(group.group_id, [member], "left temporarily", EventKind.MEMBER_LEFT, changes, context)
        return changes.decision(response)

    def _expire(
        self, group: ConsumerGroup, member: ConsumerMember, reason: str, context: Context
    ) -> Decision[None]:
        logger.info(
            "group %s: member %s is fenced because %s",
            shown(group.group_id),
            shown(member.member_id),
            shown(reason),
        )
        return self.fence(group, [member], None, reason, EventKind.MEMBER_EXPIRED, context)

    def fence(
        self,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        reply: R,
        reason: str,
        kind: EventKind,
        context: Context,
    ) -> Decision[R]:
        """Remove members; if only classic members remain, convert the group."""
        changes = Changes()
        if not members:
            return changes.decision(reply)
        self._note(group.group_id, members, reason, kind, changes, context)
        if can_downgrade(group, members, context.settings):
            self.downgrade(group, members, None, changes, context)
            return changes.decision(reply)
        for member in members:
            changes.write(entries.member_tombstone(group.group_id, member.member_id))
            changes.then(partial(self.timeouts.cancel_timeouts, group.group_id, member.member_id))
        metadata_hash = self._hash_without(group, members, changes, context)
        changes.write((entries.group_epoch(group.group_id, group.group_epoch + 1, metadata_hash),))
        if len(members) == len(group.members):
            self._note(group.group_id, [], "", EventKind.GROUP_EMPTY, changes, context)
        return changes.decision(reply)

    def _hash_without(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], changes: Changes, context: Context
    ) -> int:
        """Patterns that no other member uses are removed with the members."""
        subscribed = dict(group.subscribed)
        leaving: dict[str, int] = {}
        for member in members:
            count_names(subscribed, member.subscribed_names, -1)
            count_one(leaving, member.regex, 1)
        for pattern, count in leaving.items():
            if group.regexes.get(pattern) == count:
                changes.write((entries.regex_tombstone(group.group_id, pattern),))
                resolved = group.resolved.get(pattern)
                count_regex(subscribed, resolved.topics if resolved else (), -1)
        return self._hashes.of_group(subscribed, context.image)

    # Downgrade to a classic group

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerMember],
        joining: ConsumerMember | None,
        changes: Changes,
        context: Context,
    ) -> None:
        """All members have to rejoin, unless a static member has just replaced another one."""
        classic = to_classic_group(group, leaving, joining, context.image, context.now_ms)
        changes.write(downgrade_entries(group, classic, joining))
        reason = f"Downgrade group {group.group_id} from consumer to classic." if joining is None else None
        taken_over = self._machine.classic.take_over(classic, context, reason)
        changes.then(partial(logger.info, "group %s is now a classic group", classic.group_id))
        for member_id in group.members:
            changes.then(partial(self.timeouts.cancel_timeouts, group.group_id, member_id))
        changes.then(
            partial(
                self._machine.events.note,
                classic.group_id,
                context.now_ms,
                EventKind.GROUP_CONVERTED,
                reason="to the classic protocol",
                generation=classic.generation,
            )
        )
        changes.then(taken_over.apply_soft_state)

    def _note(
        self,
        group_id: str,
        members: Sequence[ConsumerMember],
        reason: str,
        kind: EventKind,
        changes: Changes,
        context: Context,
    ) -> None:
        note = partial(self._machine.events.note, group_id, context.now_ms, kind, reason=reason)
        for member_id in [member.member_id for member in members] or [""]:
            changes.then(partial(note, who=member_id))
