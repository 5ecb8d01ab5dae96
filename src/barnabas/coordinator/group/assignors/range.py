"""The range assignor: members get consecutive partitions of each topic, co-partitioned across topics.

Members are sorted by instance id, then those without one by member id.  Topics with the same number of
partitions and subscribers are therefore split at the same positions, so that they can be joined by key.
"""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.spec import Assignment, AssignorError, GroupSpec

NAME = "range"


class _TopicRanges:
    """How the partitions of one topic are distributed."""

    __slots__ = ("extra", "next", "partitions", "quota", "subscribers")

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.subscribers = 0
        self.quota = -1
        self.extra = 0
        self.next = 0

    def next_range(self) -> frozenset[int]:
        """The range of the next member."""
        if self.quota < 0:
            self.quota, self.extra = divmod(self.partitions, self.subscribers)
        start = self.next
        self.next = min(start + self.quota + (self.extra > 0), self.partitions)
        self.extra -= self.extra > 0
        return frozenset(range(start, self.next))


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    members = _sorted_members(spec)
    topics = {member: spec.members[member].topics for member in members}
    if spec.homogeneous and members:
        topics = dict.fromkeys(members, topics[members[0]])
    ranges: dict[Uuid, _TopicRanges] = {}
    for member in members:
        for topic in topics[member]:
            topic_ranges = ranges.get(topic)
            if topic_ranges is None:
                topic_ranges = ranges[topic] = _TopicRanges(_known_count(spec, topic))
            topic_ranges.subscribers += 1
    return {member: _member_ranges(topics[member], ranges) for member in members}


def _member_ranges(topics: tuple[Uuid, ...], ranges: dict[Uuid, _TopicRanges]) -> Assignment:
    assigned = ((topic, ranges[topic].next_range()) for topic in topics)
    return {topic: partitions for topic, partitions in assigned if partitions}


def _known_count(spec: GroupSpec, topic: Uuid) -> int:
    count = spec.partition_count(topic)
    if count is None:
        raise AssignorError("Member is subscribed to a non-existent topic")
    return count


def _sorted_members(spec: GroupSpec) -> list[str]:
    def key(member: str) -> tuple[bool, str]:
        instance = spec.members[member].instance_id
        return (instance is None, _utf16(member if instance is None else instance))

    return sorted(spec.member_ids, key=key)


def _utf16(text: str) -> str:
    """Java compares strings by UTF-16 units; Python's order is the same within the first plane."""
    if text.isascii():
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(units[index] << 8 | units[index + 1]) for index in range(0, len(units), 2))
