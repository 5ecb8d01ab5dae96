"""The range assignor: of each topic, members get consecutive partitions, the same ones of topics alike.

Members are ordered by instance id, those without one behind them by member id; topics with as many
partitions and subscribers are therefore cut in the same places, so that they can be joined by key.
"""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.spec import Assignment, AssignorError, GroupSpec

NAME = "range"


class _Cut:
    """How one topic is handed out."""

    __slots__ = ("extra", "next", "partitions", "quota", "subscribers")

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.subscribers = 0
        self.quota = -1
        self.extra = 0
        self.next = 0

    def take(self) -> frozenset[int]:
        """The share of the next member."""
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
    cuts: dict[Uuid, _Cut] = {}
    for member in members:
        for topic in topics[member]:
            cut = cuts.get(topic)
            if cut is None:
                cut = cuts[topic] = _Cut(_known_count(spec, topic))
            cut.subscribers += 1
    return {member: _shares(topics[member], cuts) for member in members}


def _shares(topics: tuple[Uuid, ...], cuts: dict[Uuid, _Cut]) -> Assignment:
    shares = ((topic, cuts[topic].take()) for topic in topics)
    return {topic: share for topic, share in shares if share}


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
    """Java compares strings by UTF-16 units; within the first plane that is the order of Python."""
    if text.isascii():
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(units[place] << 8 | units[place + 1]) for place in range(0, len(units), 2))
