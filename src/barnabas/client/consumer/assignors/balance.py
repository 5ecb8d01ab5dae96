"""A sticky assignment for members with different subscriptions.

Contains the assignment of unowned partitions, and the fewest moves that reach a better balance; how members
report what they own belongs in `sticky`.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.consumer.assignors.simple import Plan
from barnabas.client.group_protocol import Subscription
from barnabas.client.model import TopicPartition

# A round that moves nothing is the last; this many rounds would mean an endless cycle.
MAX_ROUNDS = 1_000


def balanced_plan(
    partitions: Mapping[str, int],
    members: Mapping[str, Subscription],
    owned: Mapping[str, list[TopicPartition]],
    former: Mapping[TopicPartition, str],
) -> Plan:
    """Assign every partition to one of the subscribers of its topic."""
    return _Balance(partitions, members, owned, former).plan()


class _Balance:
    def __init__(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        owned: Mapping[str, list[TopicPartition]],
        former: Mapping[TopicPartition, str],
    ) -> None:
        self._former = former
        self._topics = {
            member: {topic for topic in wants.topics if topic in partitions}
            for member, wants in members.items()
        }
        self._readers = {
            topic: sorted(member for member, topics in self._topics.items() if topic in topics)
            for topic in partitions
        }
        self._most = {
            member: sum(partitions[topic] for topic in topics) for member, topics in self._topics.items()
        }
        self._all = [
            TopicPartition(topic, number)
            for topic in sorted(partitions, key=lambda name: (len(self._readers[name]), name))
            for number in range(partitions[topic])
        ]
        self._plan: Plan = {
            member: [
                partition for partition in owned.get(member, ()) if partition.topic in self._topics[member]
            ]
            for member in members
        }
        # A member that no longer subscribes to what it owned loses it: balancing must wait for that.
        self._revokes = any(len(self._plan[member]) < len(owned.get(member, ())) for member in members)
        self._holder = {partition: member for member, mine in self._plan.items() for partition in mine}
        self._moves: dict[tuple[str, str, str], set[TopicPartition]] = {}

    def plan(self) -> Plan:
        fresh = not any(self._plan.values())
        free = [
            partition
            for partition in self._all
            if partition not in self._holder and self._readers[partition.topic]
        ]
        for partition in free:
            self._give(partition, self._least_loaded(partition.topic))
        before = {member: list(mine) for member, mine in self._plan.items()}
        movable = [partition for partition in self._all if len(self._readers[partition.topic]) > 1]
        if not self._revokes:
            free_set = set(free)
            self._move([partition for partition in movable if partition in free_set])
        moved = self._move(movable)
        if moved and not fresh and _unevenness(self._plan) >= _unevenness(before):
            # The moves gained nothing.
            return before
        return self._plan

    def _least_loaded(self, topic: str) -> str:
        return min(self._readers[topic], key=lambda member: (len(self._plan[member]), member))

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._plan[member].append(partition)
        self._holder[partition] = member

    def _is_balanced(self) -> bool:
        sizes = [len(mine) for mine in self._plan.values()]
        if min(sizes) >= max(sizes) - 1:
            return True
        for member, mine in self._plan.items():
            if len(mine) == self._most[member]:
                continue
            for partition, holder in self._holder.items():
                if partition.topic in self._topics[member] and len(mine) + 1 < len(self._plan[holder]):
                    return False
        return True

    def _move(self, candidates: list[TopicPartition]) -> bool:
        """Move partitions to members with fewer until that gains nothing; returns whether any was moved."""
        moved = False
        for _ in range(MAX_ROUNDS):
            again = False
            for candidate in candidates:
                if self._is_balanced():
                    break
                target = self._better_holder(candidate)
                if target is not None:
                    self._take_over(candidate, target)
                    again = moved = True
            if not again:
                break
        return moved

    def _better_holder(self, partition: TopicPartition) -> str | None:
        load = len(self._plan[self._holder[partition]])
        former = self._former.get(partition)
        if former in self._plan and load > len(self._plan[former]) + 1:
            return former
        if any(load > len(self._plan[other]) + 1 for other in self._readers[partition.topic]):
            return self._least_loaded(partition.topic)
        return None

    def _take_over(self, partition: TopicPartition, target: str) -> None:
        """Move it, or another partition of its topic that moved the opposite way: that saves two moves."""
        source = self._holder[partition]
        back = self._moves.get((partition.topic, target, source))
        chosen = next(iter(sorted(back))) if back else partition
        if back:
            back.discard(chosen)
        else:
            self._moves.setdefault((partition.topic, source, target), set()).add(chosen)
        self._plan[source].remove(chosen)
        self._give(chosen, target)


def _unevenness(plan: Plan) -> int:
    """Return the sum of the differences between all pairs of members."""
    sizes = sorted(len(mine) for mine in plan.values())
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
