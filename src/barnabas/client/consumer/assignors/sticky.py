"""Assignors that keep partitions where they are as far as balance allows: sticky and cooperative-sticky.

Contains ownership, and the assignment for members with equal subscriptions; different subscriptions belong
in `balance`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.client.consumer.assignors.balance import balanced_plan
from barnabas.client.consumer.assignors.simple import Plan
from barnabas.client.group_protocol import Subscription
from barnabas.client.model import NO_EPOCH, TopicPartition, by_topic
from barnabas.protocol.primitives import ProtocolError, Reader

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
# The smallest encoding of an owned topic: bounds the number of topics by the size of the data.
_SMALLEST_TOPIC = 6


@dataclass(slots=True)
class Owned:
    """Current owners by the newest claims, and partitions claimed twice in the same generation."""

    by_member: dict[str, list[TopicPartition]] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    # Owners by claims of older generations that newer ones overruled.
    former: dict[TopicPartition, str] = field(default_factory=dict)


class _Sticky:
    """The common assignment; the subclasses differ in how members report what they own."""

    def claims(self, subscription: Subscription) -> tuple[Iterable[TopicPartition], int]:
        """Return the partitions that a member claims to own, and the generation of the claim."""
        raise NotImplementedError

    def _plan(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> tuple[Plan, dict[TopicPartition, str]]:
        """Return the assignment, and the new owners of the partitions that move between members."""
        owned = self._owned(partitions, members)
        wanted = {frozenset(member.topics) for member in members.values()}
        if len(wanted) == 1:
            known = sorted(topic for topic in next(iter(wanted)) if topic in partitions)
            return even_plan({topic: partitions[topic] for topic in known}, owned)
        plan = balanced_plan(partitions, members, owned.by_member, owned.former)
        return plan, _changing_hands(members, plan)

    def _owned(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Owned:
        owned = Owned({member: [] for member in members})
        holder: dict[TopicPartition, tuple[str, int]] = {}
        for member in sorted(members):
            claimed, generation = self.claims(members[member])
            for partition in claimed:
                if partition.partition >= partitions.get(partition.topic, 0):
                    continue
                other = holder.get(partition)
                if other is None:
                    owned.by_member[member].append(partition)
                    holder[partition] = (member, generation)
                elif generation == other[1]:
                    owned.disputed.add(partition)
                    if partition in owned.by_member[other[0]]:
                        owned.by_member[other[0]].remove(partition)
                elif generation > other[1]:
                    owned.former[partition] = other[0]
                    owned.by_member[other[0]].remove(partition)
                    owned.by_member[member].append(partition)
                    holder[partition] = (member, generation)
                else:
                    owned.former[partition] = member
        return owned


def even_plan(partitions: Mapping[str, int], owned: Owned) -> tuple[Plan, dict[TopicPartition, str]]:
    """For members with equal subscriptions: the numbers of partitions differ by one at most."""
    total = sum(partitions.values())
    least, more = divmod(total, len(owned.by_member))
    most = least + (1 if more else 0)
    plan: Plan = {member: [] for member in owned.by_member}
    given_up: dict[TopicPartition, str] = {}
    too_few: list[str] = []
    could_take: list[str] = []
    full = 0
    for member in sorted(plan):
        mine = sorted(owned.by_member[member], key=lambda partition: (partition.partition, partition.topic))
        mine = [partition for partition in mine if partition not in owned.disputed]
        if len(mine) < least:
            keep = len(mine)
            too_few.append(member)
        elif len(mine) >= most and full < more:
            keep = most
            full += 1
        else:
            keep = least
            could_take.append(member)
        plan[member] = mine[:keep]
        given_up.update(dict.fromkeys(mine[keep:], member))
    if full == more:
        could_take = []
    changing = _deal(partitions, plan, too_few, could_take, least, most)
    moved = {
        partition: member
        for partition, member in changing.items()
        if partition in owned.disputed or given_up.get(partition, member) != member
    }
    return plan, moved


def _deal(
    partitions: Mapping[str, int],
    plan: Plan,
    too_few: list[str],
    could_take: list[str],
    least: int,
    most: int,
) -> dict[TopicPartition, str]:
    """Deal unowned partitions to members with too few, in turns, then to those that may take one more."""
    taken = {partition for mine in plan.values() for partition in mine}
    free = [
        TopicPartition(topic, number)
        for topic in sorted(partitions)
        for number in range(partitions[topic])
        if TopicPartition(topic, number) not in taken
    ]
    dealt: dict[TopicPartition, str] = {}
    turn = 0
    for partition in free:
        if too_few:
            turn %= len(too_few)
            member = too_few[turn]
        else:
            member = could_take.pop(0)
        plan[member].append(partition)
        dealt[partition] = member
        if too_few:
            if len(plan[member]) >= least:
                too_few.pop(turn)
                if len(plan[member]) < most:
                    could_take.append(member)
            else:
                turn += 1
    return dealt


def _changing_hands(members: Mapping[str, Subscription], plan: Plan) -> dict[TopicPartition, str]:
    """Return the partitions that the assignment moves between members, with their new owners."""
    added = {
        partition: member
        for member, mine in plan.items()
        for partition in mine
        if partition not in members[member].owned
    }
    revoked = {
        partition
        for member, mine in plan.items()
        for partition in members[member].owned
        if partition not in mine
    }
    return {partition: member for partition, member in added.items() if partition in revoked}


class StickyAssignor(_Sticky):
    """Members report what they own in this assignor's user data; a rebalance stops the whole group."""

    name = "sticky"
    is_cooperative = False

    def __init__(self) -> None:
        self._mine: tuple[TopicPartition, ...] | None = None
        self._generation_id = NO_EPOCH

    def user_data(self) -> bytes | None:
        if self._mine is None:
            return None
        parts = [_INT32.pack(len(by_topic(self._mine)))]
        for topic, numbers in by_topic(self._mine).items():
            text = topic.encode()
            parts += [_INT16.pack(len(text)), text, _INT32.pack(len(numbers))]
            parts += [_INT32.pack(number) for number in numbers]
        return b"".join((*parts, _INT32.pack(self._generation_id)))

    def assigned(self, partitions: Iterable[TopicPartition], generation_id: int) -> None:
        self._mine = tuple(partitions)
        self._generation_id = generation_id

    def claims(self, subscription: Subscription) -> tuple[Iterable[TopicPartition], int]:
        if not subscription.user_data:
            return (), NO_EPOCH
        try:
            return _read_user_data(subscription.user_data)
        except (ProtocolError, UnicodeDecodeError):
            # Another library's format: such a member owns nothing, as in Apache Kafka.
            return (), NO_EPOCH

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Plan:
        return self._plan(partitions, members)[0]


def _read_user_data(data: bytes) -> tuple[list[TopicPartition], int]:
    reader = Reader(data)
    results: list[TopicPartition] = []
    topics = reader.int32()
    if not 0 <= topics <= len(data) // _SMALLEST_TOPIC:
        raise ProtocolError(f"{topics} topics do not fit {len(data)} bytes")
    for _ in range(topics):
        topic = reader.string()
        numbers = reader.int32()
        if not 0 <= numbers <= len(data) // _INT32.size:
            raise ProtocolError(f"{numbers} partitions do not fit {len(data)} bytes")
        results += [TopicPartition(topic or "", reader.int32()) for _ in range(numbers)]
    # The first version had no generation.
    generation_id = reader.int32() if len(data) - reader.position >= _INT32.size else NO_EPOCH
    return results, generation_id


class CooperativeStickyAssignor(_Sticky):
    """Members keep what they own; a partition that moves is revoked first and assigned in the next
    rebalance."""

    name = "cooperative-sticky"
    is_cooperative = True

    def __init__(self) -> None:
        self._generation_id = NO_EPOCH

    def user_data(self) -> bytes | None:
        return _INT32.pack(self._generation_id)

    def assigned(self, partitions: Iterable[TopicPartition], generation_id: int) -> None:
        self._generation_id = generation_id

    def claims(self, subscription: Subscription) -> tuple[Iterable[TopicPartition], int]:
        if subscription.generation_id != NO_EPOCH:
            return subscription.owned, subscription.generation_id
        data = subscription.user_data
        generation = _INT32.unpack(data)[0] if data is not None and len(data) == _INT32.size else NO_EPOCH
        return subscription.owned, generation

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Plan:
        plan, moved = self._plan(partitions, members)
        for partition, member in moved.items():
            plan[member].remove(partition)
        return plan
