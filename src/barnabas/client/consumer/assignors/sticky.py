"""Assignors that leave partitions where they are, as far as balance allows: sticky and cooperative-sticky.

What lives here: who owned what, and the plan for members that all want the same topics.  What may not: the
plan for members that want different ones (balance).
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
# What a member claims to own takes some bytes each: more topics than bytes cannot be.
_SMALLEST_TOPIC = 6


@dataclass(slots=True)
class Owned:
    """Who owns what by the newest claims, and what several claim in the same generation."""

    by_member: dict[str, list[TopicPartition]] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    # Claims of older generations that newer ones overruled: the owner before.
    former: dict[TopicPartition, str] = field(default_factory=dict)


class _Sticky:
    """The plan of both; they differ in how members tell what they own."""

    def claims(self, subscription: Subscription) -> tuple[Iterable[TopicPartition], int]:
        """What a member says it owns, and since which generation."""
        raise NotImplementedError

    def _plan(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> tuple[Plan, dict[TopicPartition, str]]:
        """The plan, and the partitions that change hands with the member that gets each."""
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
            for one in claimed:
                if one.partition >= partitions.get(one.topic, 0):
                    continue
                other = holder.get(one)
                if other is None:
                    owned.by_member[member].append(one)
                    holder[one] = (member, generation)
                elif generation == other[1]:
                    owned.disputed.add(one)
                    if one in owned.by_member[other[0]]:
                        owned.by_member[other[0]].remove(one)
                elif generation > other[1]:
                    owned.former[one] = other[0]
                    owned.by_member[other[0]].remove(one)
                    owned.by_member[member].append(one)
                    holder[one] = (member, generation)
                else:
                    owned.former[one] = member
        return owned


def even_plan(partitions: Mapping[str, int], owned: Owned) -> tuple[Plan, dict[TopicPartition, str]]:
    """For members that all want the same: each gets as many as any other, give or take one."""
    total = sum(partitions.values())
    least, more = divmod(total, len(owned.by_member))
    most = least + (1 if more else 0)
    plan: Plan = {member: [] for member in owned.by_member}
    given_up: dict[TopicPartition, str] = {}
    too_few: list[str] = []
    could_take: list[str] = []
    full = 0
    for member in sorted(plan):
        mine = sorted(owned.by_member[member], key=lambda one: (one.partition, one.topic))
        mine = [one for one in mine if one not in owned.disputed]
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
        one: member
        for one, member in changing.items()
        if one in owned.disputed or given_up.get(one, member) != member
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
    """Give what nobody has to those who have too few, in turns, then to those who may have one more."""
    taken = {one for mine in plan.values() for one in mine}
    free = [
        TopicPartition(topic, number)
        for topic in sorted(partitions)
        for number in range(partitions[topic])
        if TopicPartition(topic, number) not in taken
    ]
    dealt: dict[TopicPartition, str] = {}
    turn = 0
    for one in free:
        if too_few:
            turn %= len(too_few)
            member = too_few[turn]
        else:
            member = could_take.pop(0)
        plan[member].append(one)
        dealt[one] = member
        if too_few:
            if len(plan[member]) >= least:
                too_few.pop(turn)
                if len(plan[member]) < most:
                    could_take.append(member)
            else:
                turn += 1
    return dealt


def _changing_hands(members: Mapping[str, Subscription], plan: Plan) -> dict[TopicPartition, str]:
    """What the plan takes from one member and gives to another."""
    added = {one: member for member, mine in plan.items() for one in mine if one not in members[member].owned}
    revoked = {one for member, mine in plan.items() for one in members[member].owned if one not in mine}
    return {one: member for one, member in added.items() if one in revoked}


class StickyAssignor(_Sticky):
    """Members tell what they own in user data of this assignor's own; everything stops for a rebalance."""

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
            # Another library's idea of it: such a member owns nothing, as in Apache Kafka.
            return (), NO_EPOCH

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Plan:
        return self._plan(partitions, members)[0]


def _read_user_data(data: bytes) -> tuple[list[TopicPartition], int]:
    reader = Reader(data)
    found: list[TopicPartition] = []
    topics = reader.int32()
    if not 0 <= topics <= len(data) // _SMALLEST_TOPIC:
        raise ProtocolError(f"{topics} topics do not fit {len(data)} bytes")
    for _ in range(topics):
        topic = reader.string()
        numbers = reader.int32()
        if not 0 <= numbers <= len(data) // _INT32.size:
            raise ProtocolError(f"{numbers} partitions do not fit {len(data)} bytes")
        found += [TopicPartition(topic or "", reader.int32()) for _ in range(numbers)]
    # The first version had no generation.
    generation_id = reader.int32() if len(data) - reader.position >= _INT32.size else NO_EPOCH
    return found, generation_id


class CooperativeStickyAssignor(_Sticky):
    """Members keep what they own; what changes hands is first taken from one, then given to another."""

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
        told = _INT32.unpack(data)[0] if data is not None and len(data) == _INT32.size else NO_EPOCH
        return subscription.owned, told

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Plan:
        plan, moved = self._plan(partitions, members)
        for one, member in moved.items():
            plan[member].remove(one)
        return plan
