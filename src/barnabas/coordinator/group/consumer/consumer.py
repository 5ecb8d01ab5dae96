"""Consumer groups of KIP-848, as a part of the group machine.

What lives here: what requests may be asked, how records become groups, and what a change of the cluster's
topics means to groups.  What may not: decisions (consumer_heartbeat.py, consumer_leave.py,
consumer_classic.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from barnabas.base.errors import KafkaError
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.consumer.describe import described, not_described
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.heartbeat import HeartbeatContext, Heartbeats
from barnabas.coordinator.group.consumer.leave import Leaves
from barnabas.coordinator.group.consumer.member import (
    LEFT_EPOCH,
    LEFT_FOR_A_WHILE_EPOCH,
    MemberState,
)
from barnabas.coordinator.group.consumer.options import session_timeout_ms
from barnabas.coordinator.group.consumer.replay import APPLIERS, SUBSCRIBING
from barnabas.coordinator.group.consumer.steps import Steps
from barnabas.coordinator.group.conversion.classic_members import ClassicMembers
from barnabas.coordinator.group.part import Part
from barnabas.coordinator.group.subscription.patterns import Patterns
from barnabas.coordinator.group.subscription.subscription import TopicHashes
from barnabas.metadata.delta import Delta
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine


class ConsumerGroups(Part):
    """All consumer groups of a shard."""

    keys: ClassVar[tuple[type[Message], ...]] = tuple(APPLIERS)

    def __init__(self, machine: GroupMachine) -> None:
        super().__init__(machine)
        hashes = self._hashes = TopicHashes()
        self._leaves = Leaves(machine, hashes)
        timeouts = self._timeouts = self._leaves.timeouts
        steps = Steps(machine.table, hashes, timeouts, machine.events)
        self._patterns = Patterns(machine, hashes, steps)
        self._heartbeats = Heartbeats(machine, hashes, timeouts, steps, self._patterns)
        # Members of the classic kind: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
        self.classic = ClassicMembers(machine, self._leaves, steps)
        # Which groups to look at when a topic changes.
        self._by_topic: dict[str, set[str]] = {}

    # Requests

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, requester: HeartbeatContext, context: Context
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        if request.member_epoch in (LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH):
            return self._leaves.leave(request, context)
        return self._heartbeats.heartbeat(request, requester, context)

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
            # A group of offsets alone may have come before it, when the log is loaded.
            group = ConsumerGroup(group_id)
            self.machine.table.put(group)
        apply = APPLIERS[type(key)]
        if type(key) not in SUBSCRIBING:
            apply(group, key, value)
            return
        before = set(group.subscribed)
        is_gone = apply(group, key, value)
        if is_gone:
            self.machine.remove(group_id)
        self._resubscribe(group_id, before, set() if is_gone else set(group.subscribed))

    def _resubscribe(self, group_id: str, before: set[str], after: set[str]) -> None:
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
                    self._timeouts.expect_heartbeat(group.group_id, member.member_id, within_ms)
                    if member.state is MemberState.UNREVOKED_PARTITIONS:
                        self._timeouts.expect_revocation(group.group_id, member)

    def metadata_changed(self, delta: Delta, context: Context) -> list[Entry]:
        """Groups look at their topics with the next heartbeat of one of their members."""
        for topic_id in delta.topics:
            known = delta.before.topics.get(topic_id)
            topic = delta.image.topics.get(topic_id, known)
            if topic is None:
                continue  # created and deleted at once
            if known is None:
                self._patterns.last_new_topics = delta.image.offset
            for group_id in self._by_topic.get(topic.name, ()):
                group = self.machine.table.get(group_id)
                if isinstance(group, ConsumerGroup):
                    group.metadata_fresh_until_ms = 0
        return []
