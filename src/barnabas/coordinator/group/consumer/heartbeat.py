"""ConsumerGroupHeartbeat: members that join, stay and change their subscription.

Finds or creates the group, updates the member, and builds the response.  Target computation and
reconciliation belong in `member_updater`, leaving in `leave`.
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
    check_group_size,
    dynamic_member,
    static_member,
)
from barnabas.coordinator.group.consumer.member import JOIN_GROUP_MEMBER_EPOCH, ConsumerMember
from barnabas.coordinator.group.consumer.member_updater import MemberUpdate, MemberUpdater, write_subscription
from barnabas.coordinator.group.consumer.options import heartbeat_interval_ms, session_timeout_ms
from barnabas.coordinator.group.consumer.timeouts import Timeouts
from barnabas.coordinator.group.conversion.conversion import (
    check_upgrade,
    creation_entries,
    to_consumer_group,
)
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
    """The sender of a heartbeat, and which topics it may see."""

    caller: Caller
    sees: Sees


class HeartbeatDecisions:
    """ConsumerGroupHeartbeat decisions for all consumer groups of a shard."""

    def __init__(
        self,
        machine: GroupMachine,
        hashes: TopicHashes,
        timeouts: Timeouts,
        updater: MemberUpdater,
        patterns: Patterns,
    ) -> None:
        self._machine = machine
        self._hashes = hashes
        self._timeouts = timeouts
        self._updater = updater
        self._patterns = patterns

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, requester: HeartbeatContext, context: Context
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        changes = Changes()
        joins = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        group = self._group(request.group_id, joins, changes, context)
        check_group_size(group, request.member_id, context.settings["group.consumer.max.size"])
        before = self._member(group, request, joins, changes, context)
        after = _changed_by(before, request, requester.caller)
        bump = group.group_epoch == 0
        bump |= write_subscription(group.group_id, before, after, changes)
        bump |= self._patterns.update_patterns(group, before, after, requester.sees, changes, context)
        update = MemberUpdate(group, before, after, request.topic_partitions)
        updated = self._updater.update(update, bump=bump, changes=changes, context=context)
        within_ms = session_timeout_ms(group.group_id, context)
        changes.then(
            partial(self._timeouts.schedule_session_timeout, group.group_id, updated.member_id, within_ms)
        )
        if joins:
            self._note_join(group, updated, changes, context)
        include_assignment = joins or _is_full(request) or updated.assigned != before.assigned
        return changes.decision(_response(group.group_id, updated, include_assignment, context))

    # The group

    def _group(self, group_id: str, joins: bool, changes: Changes, context: Context) -> ConsumerGroup:
        """Returns the group; a joining member creates it, or converts a classic group."""
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
        group = to_consumer_group(classic, self._hashes, context.image)
        changes.write(classic.tombstones())
        changes.write(creation_entries(group))

        def converted() -> None:
            logger.info("group %s is now a consumer group", shown(classic.group_id))
            note = self._machine.events.note
            note(
                classic.group_id,
                context.now_ms,
                EventKind.GROUP_CONVERTED,
                reason="to the consumer protocol",
            )
            rejoin = ErrorCode.REBALANCE_IN_PROGRESS
            for member in classic.members.values():
                if member.joining is not None:
                    member.joining.set(refused_join(rejoin, member.member_id))
                if member.syncing is not None:
                    member.syncing.set(SyncGroupResponse(error_code=rejoin, assignment=b""))
                self._timeouts.schedule_session_timeout(
                    classic.group_id, member.member_id, member.session_timeout_ms
                )

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
        # Only clients that use version 0 may leave the member id to the broker.
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
    """Fields that are absent from the request keep their value."""
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


def _or(requested: str | None, current: str | None) -> str | None:
    return current if requested is None else requested


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that missed a response sends the full state and gets the full response."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _response(
    group_id: str, member: ConsumerMember, include_assignment: bool, context: Context
) -> ConsumerGroupHeartbeatResponse:
    kind = ConsumerGroupHeartbeatResponse
    assignment = None
    if include_assignment:
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
