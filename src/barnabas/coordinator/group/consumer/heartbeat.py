"""ConsumerGroupHeartbeat: members that join, live and change their minds.

What lives here: which group a heartbeat is for, what it changes in the member, and the answer.  What may not:
the steps from there to an assignment (`consumer_steps`), and leaving (`consumer_leave`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.decision import Changes, Context, Decision
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.classic.changes import refused_join
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.joining import (
    check_epoch,
    check_room,
    dynamic_member,
    static_member,
)
from barnabas.coordinator.group.consumer.member import JOINING_EPOCH, ConsumerMember
from barnabas.coordinator.group.consumer.options import heartbeat_interval_ms, session_timeout_ms
from barnabas.coordinator.group.consumer.steps import Asked, Steps, write_subscription
from barnabas.coordinator.group.consumer.timeouts import Timeouts
from barnabas.coordinator.group.conversion.conversion import check_upgrade, creation, upgraded
from barnabas.coordinator.group.subscription.patterns import Patterns
from barnabas.coordinator.group.subscription.regexes import Sees
from barnabas.coordinator.group.subscription.subscription import TopicHashes
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.runtime.random import random_uuid

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

from barnabas.base.log_text import shown

logger = logging.getLogger(__name__)


class HeartbeatContext(NamedTuple):
    """Who sends a heartbeat, and which topics it may know of."""

    caller: Caller
    sees: Sees


class Heartbeats:
    """Of all consumer groups of a shard."""

    def __init__(
        self,
        machine: GroupMachine,
        hashes: TopicHashes,
        timeouts: Timeouts,
        steps: Steps,
        patterns: Patterns,
    ) -> None:
        self._machine = machine
        self._hashes = hashes
        self._timeouts = timeouts
        self._steps = steps
        self._patterns = patterns

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, requester: HeartbeatContext, context: Context
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        changes = Changes()
        joins = request.member_epoch == JOINING_EPOCH
        group = self._group(request.group_id, joins, changes, context)
        check_room(group, request.member_id, context.settings["group.consumer.max.size"])
        before = self._member(group, request, joins, changes, context)
        after = _changed_by(before, request, requester.caller)
        bump = group.group_epoch == 0
        bump |= write_subscription(group.group_id, before, after, changes)
        bump |= self._patterns.changed(group, before, after, requester.sees, changes, context)
        asked = Asked(group, before, after, request.topic_partitions)
        settled = self._steps.settle(asked, bump=bump, changes=changes, context=context)
        within_ms = session_timeout_ms(group.group_id, context)
        changes.then(partial(self._timeouts.expect_heartbeat, group.group_id, settled.member_id, within_ms))
        if joins:
            self._note_join(group, settled, changes, context)
        shows_assignment = joins or _is_full(request) or settled.assigned != before.assigned
        return changes.decision(_answer(group.group_id, settled, shows_assignment, context))

    # The group

    def _group(self, group_id: str, joins: bool, changes: Changes, context: Context) -> ConsumerGroup:
        """The group; one that joins makes it, and makes a consumer group of a classic one."""
        known = self._machine.table.get(group_id)
        if isinstance(known, ConsumerGroup):
            return known
        if known is None:
            if joins:
                return ConsumerGroup(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not joins or not isinstance(known, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if known.is_empty:
            changes.write(known.tombstones())
            return ConsumerGroup(group_id)
        check_upgrade(known, context.settings)
        return self._upgrade(known, changes, context)

    def _upgrade(self, classic: ClassicGroup, changes: Changes, context: Context) -> ConsumerGroup:
        group = upgraded(classic, self._hashes, context.image)
        changes.write(classic.tombstones())
        changes.write(creation(group))

        def converted() -> None:
            logger.info("group %s is a consumer group from now on", shown(classic.group_id))
            note = self._machine.events.note
            note(
                classic.group_id,
                context.now_ms,
                EventKind.GROUP_CONVERTED,
                reason="to the consumer protocol",
            )
            again = ErrorCode.REBALANCE_IN_PROGRESS
            for member in classic.members.values():
                if member.joining is not None:
                    member.joining.set(refused_join(again, member.member_id))
                if member.syncing is not None:
                    member.syncing.set(SyncGroupResponse(error_code=again, assignment=b""))
                self._timeouts.expect_heartbeat(classic.group_id, member.member_id, member.session_timeout_ms)

        changes.then(converted)
        return group

    # The member

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        joins: bool,
        changes: Changes,
        context: Context,
    ) -> ConsumerMember:
        # Only members of the first version may leave it to us to name them.
        member_id = request.member_id or str(random_uuid(context.random))
        if request.instance_id is None:
            member = dynamic_member(group, member_id, create=joins)
        else:
            member = static_member(
                group, member_id, request.instance_id, create=joins, classic=False, changes=changes
            )
            if joins:
                return member
        check_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    def _note_join(
        self, group: ConsumerGroup, member: ConsumerMember, changes: Changes, context: Context
    ) -> None:
        changes.then(
            partial(
                self._machine.events.note,
                group.group_id,
                context.now_ms,
                EventKind.MEMBER_JOINED,
                who=member.member_id,
                generation=member.member_epoch,
            )
        )


def _changed_by(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """What a request does not say stays as it was."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=_or(request.instance_id, member.instance_id),
        rack_id=_or(request.rack_id, member.rack_id),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_or(request.server_assignor, member.server_assignor),
        subscribed_names=member.subscribed_names if names is None else frozenset(names),
        subscribed_regex=_or(request.subscribed_topic_regex, member.subscribed_regex),
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _or(told: str | None, known: str | None) -> str | None:
    return known if told is None else told


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that lost an answer says everything again, and hears everything again."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _answer(
    group_id: str, member: ConsumerMember, shows_assignment: bool, context: Context
) -> ConsumerGroupHeartbeatResponse:
    kind = ConsumerGroupHeartbeatResponse
    assignment = None
    if shows_assignment:
        assignment = kind.Assignment(
            topic_partitions=[
                kind.TopicPartitions(topic_id=topic, partitions=sorted(member.assigned[topic]))
                for topic in sorted(member.assigned)
            ]
        )
    return kind(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(group_id, context),
        assignment=assignment,
    )
