"""The uniform assignor for members with identical subscriptions.

Every member keeps partitions up to its quota; the excess and all unowned partitions go to the members below
their quota.
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
    unowned, total = _unowned_partitions(spec, topics)
    builder = _AssignmentBuilder(spec, members, set(topics), total)
    for position, member in enumerate(members):
        unowned += builder.retain(position, member)
    return builder.assign_unowned(unowned)


def _unowned_partitions(spec: GroupSpec, topics: list[Uuid]) -> tuple[list[tuple[Uuid, int]], int]:
    """The partitions without a previous owner, and the total number of partitions."""
    unowned: list[tuple[Uuid, int]] = []
    total = 0
    for topic in topics:
        count = spec.partition_count(topic)
        if count is None:
            raise AssignorError(
                f"Members are subscribed to topic {topic} which doesn't exist in the topic metadata."
            )
        owned = spec.owners.get(topic, {})
        unowned.extend((topic, partition) for partition in range(count) if partition not in owned)
        total += count
    return unowned, total


class _AssignmentBuilder:
    """The state of one computation."""

    def __init__(self, spec: GroupSpec, members: list[str], topics: set[Uuid], total: int) -> None:
        self._spec = spec
        self._members = members
        self._topics = topics
        # `_extras` members get one partition above the quota.
        self._quota, self._extras = divmod(total, len(members))
        self._target: dict[str, Assignment] = {}
        self._unfilled: list[tuple[str, int]] = []

    def retain(self, position: int, member: str) -> list[tuple[Uuid, int]]:
        """Let a member keep partitions up to its quota; returns the partitions it has to give up."""
        before = self._spec.members[member].before
        quota = self._quota + (self._extras > 0)
        takes_extra = self._extras > 0
        kept: dict[Uuid, frozenset[int]] = {}
        revoked: list[tuple[Uuid, int]] = []
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
            revoked.extend((topic, partition) for partition in in_order[quota:])
            quota = 0
        if quota > 0 and takes_extra and len(self._members) - position > self._extras:
            # Enough later members can take the extra partitions with less movement.
            quota -= 1
            takes_extra = False
        if quota > 0:
            self._unfilled.append((member, quota))
        self._extras -= takes_extra
        self._target[member] = kept
        return revoked

    def assign_unowned(self, unowned: list[tuple[Uuid, int]]) -> dict[str, Assignment]:
        """Assign the unowned partitions to the members below their quota, in order."""
        start = 0
        for member, quota in self._unfilled:
            added: dict[Uuid, set[int]] = {}
            for topic, partition in unowned[start : start + quota]:
                added.setdefault(topic, set()).add(partition)
            start += quota
            kept = self._target[member]
            self._target[member] = {
                **kept,
                **{topic: kept.get(topic, frozenset()) | partitions for topic, partitions in added.items()},
            }
        if start < len(unowned):
            raise AssignorError("Partitions were left unassigned")
        return self._target
