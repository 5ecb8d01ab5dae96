"""Consumer groups (KIP-848), as a component of the group machine.

Dispatches requests, rebuilds groups from records, and reacts to changes of the cluster's topics.  Decisions
belong in `heartbeat`, `leave` and `conversion.classic_members`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from barnabas.base.errors import KafkaError
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.component import GroupComponent
from barnabas.coordinator.group.consumer.describe import described, not_described
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.heartbeat import HeartbeatContext, HeartbeatDecisions
from barnabas.coordinator.group.consumer.leave import LeaveDecisions
from barnabas.coordinator.group.consumer.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    MemberState,
)
from barnabas.coordinator.group.consumer.member_updater import MemberUpdater
from barnabas.coordinator.group.consumer.options import session_timeout_ms
from barnabas.coordinator.group.consumer.replay import APPLIERS, SUBSCRIPTION_KEYS
from barnabas.coordinator.group.conversion.classic_members import ClassicMembers
from barnabas.coordinator.group.subscription.patterns import Patterns
from barnabas.coordinator.group.subscription.subscription import TopicHashes
from barnabas.coordinator.timers import Due
from barnabas.metadata.delta import Delta
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine


class ConsumerGroups(GroupComponent):
    """All consumer groups of a shard."""

    keys: ClassVar[tuple[type[Message], ...]] = tuple(APPLIERS)

    def __init__(self, machine: GroupMachine) -> None:
        super().__init__(machine)
        hashes = self._hashes = TopicHashes()
        self._leaves = LeaveDecisions(machine, hashes)
        timeouts = self._timeouts = self._leaves.timeouts
        updater = MemberUpdater(machine.table, hashes, timeouts, machine.events)
        self._patterns = Patterns(machine, hashes, updater)
        self._heartbeats = HeartbeatDecisions(machine, hashes, timeouts, updater, self._patterns)
        # Members that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
        self.classic = ClassicMembers(machine, self._leaves, updater)
        # Topic name -> the groups that subscribe to it.
        self._by_topic: dict[str, set[str]] = {}

    # Requests

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, requester: HeartbeatContext, context: Context
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            return self._leaves.leave(request, context)
        return self._heartbeats.heartbeat(request, requester, context)

    def expire_member(self, group_id: str, member_id: str, reason: str) -> Due:
        """A decision that fences a member although it is in time."""
        return self._timeouts.expire(group_id, member_id, reason)

    def describe(self, group_id: str, context: Context) -> ConsumerGroupDescribeResponse.DescribedGroup:
        try:
            group = self.machine.table.find_kind(group_id, ConsumerGroup)
        except KafkaError as error:
            return not_described(group_id, error.code, error.message)
        return described(group, context)

    # Durable state

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        key, value = entry.key, entry.value
        group_id: str = key.group_id  # type: ignore[attr-defined]  # all of our keys have one
        group = self.machine.table.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            # While the log is loaded, a simple group may precede it.
            group = ConsumerGroup(group_id)
            self.machine.table.put(group)
        apply = APPLIERS[type(key)]
        if type(key) not in SUBSCRIPTION_KEYS:
            apply(group, key, value)
            return
        before = set(group.subscribed)
        is_removed = apply(group, key, value)
        if is_removed:
            self.machine.remove(group_id)
        self._update_topic_index(group_id, before, set() if is_removed else set(group.subscribed))

    def _update_topic_index(self, group_id: str, before: set[str], after: set[str]) -> None:
        for topic in before - after:
            groups = self._by_topic.get(topic)
            if groups is not None:
                groups.discard(group_id)
                if not groups:
                    del self._by_topic[topic]
                    self._hashes.forget(topic)
        for topic in after - before:
            self._by_topic.setdefault(topic, set()).add(group_id)

    # Soft state

    def loaded(self, context: Context) -> None:
        self._patterns.last_new_topics = context.image.offset
        for group in self.machine.table:
            if isinstance(group, ConsumerGroup):
                within_ms = session_timeout_ms(group.group_id, context)
                for member in group.members.values():
                    self._timeouts.schedule_session_timeout(group.group_id, member.member_id, within_ms)
                    if member.state is MemberState.UNREVOKED_PARTITIONS:
                        self._timeouts.schedule_rebalance_timeout(group.group_id, member)

    def metadata_changed(self, delta: Delta, context: Context) -> list[Entry]:
        """Affected groups check their topics on the next heartbeat of a member."""
        for topic_id in delta.topics:
            known = delta.before.topics.get(topic_id)
            topic = delta.image.topics.get(topic_id, known)
            if topic is None:
                continue  # created and deleted in the same delta
            if known is None:
                self._patterns.last_new_topics = delta.image.offset
            for group_id in self._by_topic.get(topic.name, ()):
                group = self.machine.table.get(group_id)
                if isinstance(group, ConsumerGroup):
                    group.metadata_fresh_until_ms = 0
        return []
