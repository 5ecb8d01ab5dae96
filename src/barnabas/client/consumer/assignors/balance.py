"""A sticky plan for members that want different topics.

What lives here: giving out what nobody has, then moving as few partitions as a better balance needs.  What
may not: how members tell what they own (sticky).
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.consumer.assignors.simple import Plan
from barnabas.client.group_protocol import Subscription
from barnabas.client.model import TopicPartition

# A round that moves nothing is the last; so many rounds mean that something goes in circles.
MAX_ROUNDS = 1_000


def balanced_plan(
    partitions: Mapping[str, int],
    members: Mapping[str, Subscription],
    owned: Mapping[str, list[TopicPartition]],
    former: Mapping[TopicPartition, str],
) -> Plan:
    """Every partition to one of those who want its topic."""
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
            member: [one for one in owned.get(member, ()) if one.topic in self._topics[member]]
            for member in members
        }
        # A member that no longer wants what it owned loses it: balance must wait for that.
        self._revokes = any(len(self._plan[member]) < len(owned.get(member, ())) for member in members)
        self._holder = {one: member for member, mine in self._plan.items() for one in mine}
        self._moves: dict[tuple[str, str, str], set[TopicPartition]] = {}

    def plan(self) -> Plan:
        fresh = not any(self._plan.values())
        free = [one for one in self._all if one not in self._holder and self._readers[one.topic]]
        for one in free:
            self._give(one, self._least_loaded(one.topic))
        before = {member: list(mine) for member, mine in self._plan.items()}
        movable = [one for one in self._all if len(self._readers[one.topic]) > 1]
        if not self._revokes:
            free_set = set(free)
            self._move([one for one in movable if one in free_set])
        moved = self._move(movable)
        if moved and not fresh and _unevenness(self._plan) >= _unevenness(before):
            # Moving cost something and gained nothing.
            return before
        return self._plan

    def _least_loaded(self, topic: str) -> str:
        return min(self._readers[topic], key=lambda member: (len(self._plan[member]), member))

    def _give(self, one: TopicPartition, member: str) -> None:
        self._plan[member].append(one)
        self._holder[one] = member

    def _is_balanced(self) -> bool:
        sizes = [len(mine) for mine in self._plan.values()]
        if min(sizes) >= max(sizes) - 1:
            return True
        for member, mine in self._plan.items():
            if len(mine) == self._most[member]:
                continue
            for one, holder in self._holder.items():
                if one.topic in self._topics[member] and len(mine) + 1 < len(self._plan[holder]):
                    return False
        return True

    def _move(self, candidates: list[TopicPartition]) -> bool:
        """Move partitions to those who have fewer until that gains nothing; whether any was moved."""
        moved = False
        for _ in range(MAX_ROUNDS):
            again = False
            for one in candidates:
                if self._is_balanced():
                    break
                target = self._better_holder(one)
                if target is not None:
                    self._take_over(one, target)
                    again = moved = True
            if not again:
                break
        return moved

    def _better_holder(self, one: TopicPartition) -> str | None:
        load = len(self._plan[self._holder[one]])
        former = self._former.get(one)
        if former in self._plan and load > len(self._plan[former]) + 1:
            return former
        if any(load > len(self._plan[other]) + 1 for other in self._readers[one.topic]):
            return self._least_loaded(one.topic)
        return None

    def _take_over(self, one: TopicPartition, target: str) -> None:
        """Move it, or rather one of its topic that came the opposite way: two moves less."""
        source = self._holder[one]
        back = self._moves.get((one.topic, target, source))
        chosen = next(iter(sorted(back))) if back else one
        if back:
            back.discard(chosen)
        else:
            self._moves.setdefault((one.topic, source, target), set()).add(chosen)
        self._plan[source].remove(chosen)
        self._give(chosen, target)


def _unevenness(plan: Plan) -> int:
    """The sum of all differences between two members."""
    sizes = sorted(len(mine) for mine in plan.values())
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
