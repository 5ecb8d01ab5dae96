"""The uniform assignor for members with different subscriptions.

Members keep the partitions they still subscribe to; unowned partitions go to the least loaded subscriber of
their topic; then, topic by topic, partitions move from the most to the least loaded subscribers until that
brings no further improvement.
"""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.load import LoadOrder
from barnabas.coordinator.group.assignors.spec import Assignment, AssignorError, GroupSpec

# The maximum number of balancing rounds over all topics.
MAX_ROUNDS = 16

NO_OWNER = -1


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Not called for a group without members."""
    builder = _AssignmentBuilder(spec)
    if not builder.owners:
        return {}
    builder.retain()
    builder.assign_unowned()
    builder.balance()
    return builder.target()


class _AssignmentBuilder:
    """The state of one computation.  Members are identified by their index."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._members = spec.member_ids
        # The number of partitions of each member.
        self._loads = [0] * len(self._members)
        self._subscribers: dict[Uuid, list[int]] = {}
        # Topic to the index of the owner, by partition.
        self.owners: dict[Uuid, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic in spec.members[member].topics:
                count = spec.partition_count(topic)
                if count is None:
                    raise AssignorError(
                        f"Members are subscribed to topic {topic} which doesn't exist in the topic metadata."
                    )
                self._subscribers.setdefault(topic, []).append(number)
                if topic not in self.owners:
                    self.owners[topic] = [NO_OWNER] * count

    def retain(self) -> None:
        """Members keep the partitions of the topics they still subscribe to."""
        for number, member in enumerate(self._members):
            spec = self._spec.members[member]
            subscribed = set(spec.topics)
            for topic, partitions in spec.before.items():
                if topic in subscribed:
                    owners = self.owners[topic]
                    for partition in partitions:
                        owners[partition] = number
                    self._loads[number] += len(partitions)

    def assign_unowned(self) -> None:
        for topic in self._sorted_topics():
            owners = self.owners[topic]
            unowned = [partition for partition, owner in enumerate(owners) if owner == NO_OWNER]
            if unowned:
                order = LoadOrder(self._subscribers[topic], self._loads)
                for partition in unowned:
                    self._assign(topic, partition, order.next_least_loaded())

    def balance(self) -> None:
        topics = [topic for topic in self._sorted_topics() if len(self._subscribers[topic]) >= 2]
        last_improved = -1
        for _ in range(MAX_ROUNDS):
            for number, topic in enumerate(topics):
                if number == last_improved:
                    # All topics were checked since the last move.
                    return
                if self._balance_topic(topic) or last_improved == -1:
                    last_improved = number

    def target(self) -> dict[str, Assignment]:
        assignments: list[dict[Uuid, set[int]]] = [{} for _ in self._members]
        for topic, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                if owner != NO_OWNER:
                    assignments[owner].setdefault(topic, set()).add(partition)
        return {
            member: {topic: frozenset(partitions) for topic, partitions in assignments[number].items()}
            for number, member in enumerate(self._members)
        }

    def _sorted_topics(self) -> list[Uuid]:
        """Topics with the most partitions per subscriber first."""

        def key(topic: Uuid) -> tuple[float, int, int, int]:
            subscribers = len(self._subscribers[topic])
            share = len(self.owners[topic]) / subscribers
            return (-share, subscribers, topic.most_significant, topic.least_significant)

        return sorted(self.owners, key=key)

    def _balance_topic(self, topic: Uuid) -> bool:
        """Balance one topic; returns whether any partition moved."""
        order = LoadOrder(self._subscribers[topic], self._loads)
        if order.imbalance <= 1:
            return False
        # The partitions that each member can give up, highest first.
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic]):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not order.is_balanced():
            source = order.next_most_loaded()
            while source is not None and not owned.get(source):
                order.exclude_most_loaded()
                source = order.next_most_loaded()
            if source is None:
                break
            partition = owned[source].pop()
            destination = order.next_least_loaded()
            if order.is_balanced():
                break
            self._assign(topic, partition, destination)
            moved = True
        return moved

    def _assign(self, topic: Uuid, partition: int, member: int) -> None:
        owners = self.owners[topic]
        if owners[partition] != NO_OWNER:
            self._loads[owners[partition]] -= 1
        owners[partition] = member
        self._loads[member] += 1
