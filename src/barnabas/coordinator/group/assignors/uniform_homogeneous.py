"""The uniform assignor where all members subscribe to the same topics.

Every member may keep up to its quota; what is above it, and what nobody owns, goes to the members that have
less than theirs.
"""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.spec import (
    Assignment,
    AssignorError,
    GroupSpec,
    partitions_in_order,
    topics_of_assignment,
)


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Not called for a group without members."""
    members = spec.member_ids
    topics = spec.members[members[0]].topics_as_set()
    if not topics:
        return {}
    free, total = _free_partitions(spec, topics)
    sharing = _Sharing(spec, members, set(topics), total)
    for position, member in enumerate(members):
        free += sharing.keep(position, member)
    return sharing.hand_out(free)


def _free_partitions(spec: GroupSpec, topics: list[Uuid]) -> tuple[list[tuple[Uuid, int]], int]:
    """Those that nobody was to own before, and how many there are in all."""
    free: list[tuple[Uuid, int]] = []
    total = 0
    for topic in topics:
        count = spec.partition_count(topic)
        if count is None:
            raise AssignorError(
                f"Members are subscribed to topic {topic} which doesn't exist in the topic metadata."
            )
        owned = spec.owners.get(topic, {})
        free.extend((topic, partition) for partition in range(count) if partition not in owned)
        total += count
    return free, total


class _Sharing:
    """The state of one computation."""

    def __init__(self, spec: GroupSpec, members: list[str], topics: set[Uuid], total: int) -> None:
        self._spec = spec
        self._members = members
        self._topics = topics
        # `_extras` members get one partition more than the quota.
        self._quota, self._extras = divmod(total, len(members))
        self._target: dict[str, Assignment] = {}
        self._unfilled: list[tuple[str, int]] = []

    def keep(self, position: int, member: str) -> list[tuple[Uuid, int]]:
        """Let a member keep what its quota allows; what it has to give up."""
        before = self._spec.members[member].before
        quota = self._quota + (self._extras > 0)
        takes_extra = self._extras > 0
        kept: dict[Uuid, frozenset[int]] = {}
        given_up: list[tuple[Uuid, int]] = []
        for topic in topics_of_assignment(before):
            if topic not in self._topics:
                continue
            partitions = before[topic]
            if len(partitions) <= quota:
                kept[topic] = partitions
                quota -= len(partitions)
                continue
            in_order = partitions_in_order(partitions)
            if quota:
                kept[topic] = frozenset(in_order[:quota])
            given_up.extend((topic, partition) for partition in in_order[quota:])
            quota = 0
        if quota > 0 and takes_extra and len(self._members) - position > self._extras:
            # Enough members come behind that may take the extra partitions and move less for it.
            quota -= 1
            takes_extra = False
        if quota > 0:
            self._unfilled.append((member, quota))
        self._extras -= takes_extra
        self._target[member] = kept
        return given_up

    def hand_out(self, free: list[tuple[Uuid, int]]) -> dict[str, Assignment]:
        """Give the free partitions to the members below their quota, in order."""
        start = 0
        for member, quota in self._unfilled:
            added: dict[Uuid, set[int]] = {}
            for topic, partition in free[start : start + quota]:
                added.setdefault(topic, set()).add(partition)
            start += quota
            kept = self._target[member]
            self._target[member] = {
                **kept,
                **{topic: kept.get(topic, frozenset()) | more for topic, more in added.items()},
            }
        if start < len(free):
            raise AssignorError("Partitions were left unassigned")
        return self._target
