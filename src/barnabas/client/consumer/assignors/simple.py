"""Stateless assignors: range and round robin.  Assignors that consider ownership belong in `sticky`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from barnabas.client.group_protocol import Subscription
from barnabas.client.model import TopicPartition

Plan = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """Computes assignments on the group leader, and may attach user data to a member's subscription."""

    @property
    def name(self) -> str: ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they own while the group rebalances (KIP-429)."""
        ...

    def user_data(self) -> bytes | None: ...

    def assigned(self, partitions: Iterable[TopicPartition], generation_id: int) -> None: ...

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Plan: ...


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Sort static members first, by instance id, so that a restart changes nothing; the others by member
    id."""

    def rank(member: str) -> tuple[bool, str]:
        instance_id = members[member].group_instance_id
        return instance_id is None, member if instance_id is None else instance_id

    return sorted(members, key=rank)


def subscribers(members: Mapping[str, Subscription]) -> dict[str, list[str]]:
    """Return the subscribers of each topic, in order."""
    results: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in members[member].topics:
            results.setdefault(topic, []).append(member)
    return results


class _Stateless:
    is_cooperative = False

    def user_data(self) -> bytes | None:
        return None

    def assigned(self, partitions: Iterable[TopicPartition], generation_id: int) -> None:
        """Keeps nothing."""


class RangeAssignor(_Stateless):
    """Topic by topic: consecutive partitions to each member, one more to the first members."""

    name = "range"

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Plan:
        plan: Plan = {member: [] for member in members}
        for topic, readers in sorted(subscribers(members).items()):
            count = partitions.get(topic, 0)
            share, more = divmod(count, len(readers))
            start = 0
            for place, member in enumerate(readers):
                end = start + share + (1 if place < more else 0)
                plan[member] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return plan


class RoundRobinAssignor(_Stateless):
    """Deals all partitions of all topics to their subscribers, one by one."""

    name = "roundrobin"

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Plan:
        plan: Plan = {member: [] for member in members}
        order = in_order(members)
        wanted = {topic for member in members.values() for topic in member.topics}
        turn = 0
        for topic in sorted(wanted):
            for number in range(partitions.get(topic, 0)):
                while topic not in members[order[turn % len(order)]].topics:
                    turn += 1
                plan[order[turn % len(order)]].append(TopicPartition(topic, number))
                turn += 1
        return plan
