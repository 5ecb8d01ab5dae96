"""The uniform assignor where members subscribe to different topics.

Members keep what they still subscribe to; partitions that nobody owns go to the least loaded subscriber of
their topic; then, topic by topic, partitions move from the most to the least loaded subscribers until that
improves nothing.
"""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.load import LoadOrder
from barnabas.coordinator.group.assignors.spec import Assignment, AssignorError, GroupSpec

# Rounds through all topics after which the balance is good enough.
MAX_ROUNDS = 16

NOBODY = -1


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Not called for a group without members."""
    sharing = _Sharing(spec)
    if not sharing.owners:
        return {}
    sharing.keep()
    sharing.assign_free()
    sharing.balance()
    return sharing.target()


class _Sharing:
    """The state of one computation.  Members are numbered in their order."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._members = spec.member_ids
        # How many partitions each member has.
        self._loads = [0] * len(self._members)
        self._subscribers: dict[Uuid, list[int]] = {}
        # Topic to the owner's number by partition.
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
                    self.owners[topic] = [NOBODY] * count

    def keep(self) -> None:
        """Every member keeps what it has of the topics that it subscribes to."""
        for number, member in enumerate(self._members):
            one = self._spec.members[member]
            subscribed = set(one.topics)
            for topic, partitions in one.before.items():
                if topic in subscribed:
                    owners = self.owners[topic]
                    for partition in partitions:
                        owners[partition] = number
                    self._loads[number] += len(partitions)

    def assign_free(self) -> None:
        for topic in self._sorted_topics():
            owners = self.owners[topic]
            free = [partition for partition, owner in enumerate(owners) if owner == NOBODY]
            if free:
                order = LoadOrder(self._subscribers[topic], self._loads)
                for partition in free:
                    self._give(topic, partition, order.next_least_loaded())

    def balance(self) -> None:
        topics = [topic for topic in self._sorted_topics() if len(self._subscribers[topic]) >= 2]
        last_improved = -1
        for _ in range(MAX_ROUNDS):
            for number, topic in enumerate(topics):
                if number == last_improved:
                    # All topics were looked at since, and nothing moved.
                    return
                if self._balance_topic(topic) or last_improved == -1:
                    last_improved = number

    def target(self) -> dict[str, Assignment]:
        found: list[dict[Uuid, set[int]]] = [{} for _ in self._members]
        for topic, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                if owner != NOBODY:
                    found[owner].setdefault(topic, set()).add(partition)
        return {
            member: {topic: frozenset(partitions) for topic, partitions in found[number].items()}
            for number, member in enumerate(self._members)
        }

    def _sorted_topics(self) -> list[Uuid]:
        """Those with most partitions for each subscriber first."""

        def key(topic: Uuid) -> tuple[float, int, int, int]:
            subscribers = len(self._subscribers[topic])
            share = len(self.owners[topic]) / subscribers
            return (-share, subscribers, topic.most_significant, topic.least_significant)

        return sorted(self.owners, key=key)

    def _balance_topic(self, topic: Uuid) -> bool:
        """Move partitions of one topic; whether any moved."""
        order = LoadOrder(self._subscribers[topic], self._loads)
        if order.imbalance <= 1:
            return False
        # What each member can give up, its highest partition first.
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic]):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not order.is_balanced():
            giver = order.next_most_loaded()
            while giver is not None and not owned.get(giver):
                order.exclude_most_loaded()
                giver = order.next_most_loaded()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = order.next_least_loaded()
            if order.is_balanced():
                break
            self._give(topic, partition, taker)
            moved = True
        return moved

    def _give(self, topic: Uuid, partition: int, member: int) -> None:
        owners = self.owners[topic]
        if owners[partition] != NOBODY:
            self._loads[owners[partition]] -= 1
        owners[partition] = member
        self._loads[member] += 1
