"""Members that go: by their own will, or because they did not keep their time.

What lives here: taking members out of a group, and the change to a classic group if no others are left.  What
may not: the timers (`consumer_timeouts`).
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
from barnabas.coordinator.group.consumer.member import LEFT_FOR_A_WHILE_EPOCH, ConsumerMember
from barnabas.coordinator.group.consumer.timeouts import Timeouts
from barnabas.coordinator.group.conversion.conversion import can_downgrade, downgrade_entries, downgraded
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


class Leaves:
    """Of all consumer groups of a shard."""

    def __init__(self, machine: GroupMachine, hashes: TopicHashes) -> None:
        self._machine = machine
        self._hashes = hashes
        self.timeouts = Timeouts(machine.timers, machine.table, self._expire)

    def leave(
        self, request: ConsumerGroupHeartbeatRequest, context: Context
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """A static member may go for a while: what it owns is kept for it until its session ends."""
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
        if request.instance_id is None or request.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
            return self.fence(group, [member], response, "left", EventKind.MEMBER_LEFT, context)
        changes = Changes()
        away = replace(member, member_epoch=LEFT_FOR_A_WHILE_EPOCH, pending_revocation={})
        changes.write((entries.current_assignment(group.group_id, away),))
        self._note(group.group_id, [member], "left for a while", EventKind.MEMBER_LEFT, changes, context)
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
        """Take members out; if only members of the classic kind are left, the group becomes theirs."""
        changes = Changes()
        if not members:
            return changes.decision(reply)
        self._note(group.group_id, members, reason, kind, changes, context)
        if can_downgrade(group, members, context.settings):
            self.downgrade(group, members, None, changes, context)
            return changes.decision(reply)
        for member in members:
            changes.write(entries.member_tombstone(group.group_id, member.member_id))
            changes.then(partial(self.timeouts.forget, group.group_id, member.member_id))
        metadata_hash = self._hash_without(group, members, changes, context)
        changes.write((entries.group_epoch(group.group_id, group.group_epoch + 1, metadata_hash),))
        if len(members) == len(group.members):
            self._note(group.group_id, [], "", EventKind.GROUP_EMPTY, changes, context)
        return changes.decision(reply)

    def _hash_without(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], changes: Changes, context: Context
    ) -> int:
        """Patterns that nobody else uses go with the members."""
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

    # The group becomes a classic one

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerMember],
        joining: ConsumerMember | None,
        changes: Changes,
        context: Context,
    ) -> None:
        """Everybody has to join again, unless a static member has just joined in another's place."""
        classic = downgraded(group, leaving, joining, context.image, context.now_ms)
        changes.write(downgrade_entries(group, classic, joining))
        reason = f"Downgrade group {group.group_id} from consumer to classic." if joining is None else None
        taken_over = self._machine.classic.take_over(classic, context, reason)
        changes.then(partial(logger.info, "group %s is a classic group from now on", classic.group_id))
        for member_id in group.members:
            changes.then(partial(self.timeouts.forget, group.group_id, member_id))
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
        changes.then(taken_over.take)

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
