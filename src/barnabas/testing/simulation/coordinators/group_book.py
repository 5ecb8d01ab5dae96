"""A model of the group coordinator's log, independent of the coordinator, with its invariants; not a
scenario.

Contains a simple interpretation of the committed records in order, and the checks.  It uses none of the code
under test except its codec.

The model receives a batch when it is committed.  It checks that generations and epochs only grow, that no
partition has two owners, and that no member commits as another; and that every response contains only what
was committed when it was requested, or later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from barnabas.coordinator.entry import GROUP, Unknown, decode
from barnabas.protocol.record_frame import read_versioned
from barnabas.protocol.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from barnabas.protocol.records.consumer_protocol import ConsumerProtocolAssignment
from barnabas.protocol.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.coordinators.coordinator_log import Written

V = TypeVar("V")
NO_OFFSET = -1

# (topic, partition); by topic id in the records of consumer groups.
Partition = tuple[object, int]
# (group, topic, partition)
Place = tuple[str, str, int]


class History(dict[Place, list[tuple[int, V]]]):
    """The values of each place, with the log position from which each holds."""

    def __init__(self, before: V) -> None:
        super().__init__()
        self._before = before

    def put(self, place: Place, position: int, value: V) -> None:
        self.setdefault(place, []).append((position, value))

    def since(self, place: Place, position: int) -> set[V]:
        """All values at this position or later."""
        known = self.get(place, [])
        earlier = [value for at, value in known if at <= position]
        return {value for at, value in known if at > position} | {earlier[-1] if earlier else self._before}


@dataclass(frozen=True, slots=True)
class Sent:
    """The sender of a commit."""

    group: str
    member_id: str
    generation: int


@dataclass(slots=True)
class Held:
    """What a member of a consumer group owns according to the log."""

    epoch: int
    partitions: frozenset[Partition]


@dataclass(slots=True)
class Pending:
    """An offset of an open transaction."""

    position: int
    offset: int


@dataclass(slots=True)
class Group:
    """One group, according to the log."""

    # Of a classic group; None if it is not one.
    generation: int | None = None
    # Of a consumer group.
    epoch: int | None = None
    members: dict[str, Held] = field(default_factory=dict)


class Book:
    """The committed records of one group coordinator shard."""

    def __init__(self) -> None:
        # Everything before this offset has been applied.
        self.position = 0
        self.groups: dict[str, Group] = {}
        self.offsets: History[int] = History(NO_OFFSET)
        self.unstable: History[bool] = History(False)
        # Every offset that was ever committed, each of which is sent by one request only.
        self.committed: set[tuple[str, str, int, int]] = set()
        self.sent: dict[int, Sent] = {}
        # (group, generation) -> partition -> the member that it was assigned to.
        self._owners: dict[tuple[str, int], dict[Partition, str]] = {}
        self._assigned: dict[tuple[str, int], dict[str, frozenset[Partition]]] = {}
        # The log position of the effective offset of a place.
        self._counts: dict[Place, int] = {}
        self._pending: dict[int, dict[Place, Pending]] = {}

    # The log

    def take(self, written: Written) -> None:
        self.position = written.next_offset
        if written.marker is not None:
            self._end(written.marker.producer_id, written.marker.committed)
            return
        touched: set[str] = set()
        for row in written.rows:
            entry = decode(row.key, row.value, GROUP)
            if isinstance(entry, Unknown):
                raise InvariantError(f"a record was written that cannot be read: {entry.reason}")
            producer_id = None if written.stamp is None else written.stamp.producer_id
            self._take(entry.key, entry.value, row.offset, producer_id, touched)
        for group in touched:
            self._check_owners(group)

    def _take(
        self, key: Message, value: Message | None, at: int, producer_id: int | None, touched: set[str]
    ) -> None:
        match key, value:
            case OffsetCommitKey(), None:
                self._forget((key.group, key.topic, key.partition))
            case OffsetCommitKey(), OffsetCommitValue():
                self._offset((key.group, key.topic, key.partition), value.offset, at, producer_id)
            case GroupMetadataKey(), _:
                assert value is None or isinstance(value, GroupMetadataValue)
                self._classic(key.group, value)
            case ConsumerGroupMetadataKey(), _:
                assert value is None or isinstance(value, ConsumerGroupMetadataValue)
                self._epoch(key.group_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey(), _:
                assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self._member(key.group_id, key.member_id, value)
                touched.add(key.group_id)

    # Offsets

    def _offset(self, place: Place, offset: int, at: int, producer_id: int | None) -> None:
        if producer_id is None:
            self._count(place, offset, at)
        else:
            self._pending.setdefault(producer_id, {})[place] = Pending(at, offset)
            self.unstable.put(place, self.position, True)
        self._check_sender(place[0], offset)

    def _count(self, place: Place, offset: int, at: int) -> None:
        self.committed.add((*place, offset))
        if at > self._counts.get(place, -1):
            self._counts[place] = at
            self.offsets.put(place, self.position, offset)

    def _forget(self, place: Place) -> None:
        self._counts.pop(place, None)
        self.offsets.put(place, self.position, NO_OFFSET)
        for pending in self._pending.values():
            pending.pop(place, None)
        self._mark_stable([place])

    def _end(self, producer_id: int, committed: bool) -> None:
        pending = self._pending.pop(producer_id, {})
        for place, offset in pending.items():
            if committed:
                self._count(place, offset.offset, offset.position)
        self._mark_stable(pending)

    def _mark_stable(self, places: Iterable[Place]) -> None:
        for place in places:
            is_pending = any(place in pending for pending in self._pending.values())
            self.unstable.put(place, self.position, is_pending)

    def _check_sender(self, group_id: str, offset: int) -> None:
        """A commit is valid only while its sender has the epoch or generation it claims."""
        sent = self.sent.get(offset)
        if sent is None or sent.generation < 0:
            return
        group = self.groups.get(group_id, Group())
        if group.epoch is not None:
            held = group.members.get(sent.member_id)
            if held is None or held.epoch != sent.generation:
                raise InvariantError(f"{sent} was accepted, and the member's epoch is {held and held.epoch}")
        elif group.generation is not None and group.generation > sent.generation:
            raise InvariantError(f"{sent} was accepted in generation {group.generation}")

    # Groups

    def _classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self.groups.setdefault(group_id, Group())
        if value is None:
            group.generation = None
            self._forget_owners(group_id)
            return
        if group.generation is not None and value.generation < group.generation:
            raise InvariantError(
                f"{group_id}: generation {value.generation} was written after {group.generation}"
            )
        group.generation = value.generation
        self._assigned[group_id, value.generation] = {
            member.member_id: partitions_of(member.assignment) for member in value.members
        }

    def _forget_owners(self, group_id: str) -> None:
        """A group that is created again may start with the first generation again."""
        for known in (self._owners, self._assigned):
            for key in [known_key for known_key in known if known_key[0] == group_id]:
                del known[key]

    def _epoch(self, group_id: str, value: ConsumerGroupMetadataValue | None) -> None:
        group = self.groups.setdefault(group_id, Group())
        if value is None:
            group.epoch = None
            self._forget_owners(group_id)
            return
        if group.epoch is not None and value.epoch < group.epoch:
            raise InvariantError(f"{group_id}: epoch {value.epoch} was written after {group.epoch}")
        group.epoch = value.epoch

    def _member(
        self, group_id: str, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        group = self.groups.setdefault(group_id, Group())
        if value is None:
            group.members.pop(member_id, None)
            return
        held = [*value.assigned_partitions, *value.partitions_pending_revocation]
        partitions = frozenset((topic.topic_id, index) for topic in held for index in topic.partitions)
        group.members[member_id] = Held(value.member_epoch, partitions)

    def _check_owners(self, group_id: str) -> None:
        """In a consumer group a partition is assigned again only after it was revoked."""
        owners: dict[Partition, str] = {}
        for member_id, held in self.groups[group_id].members.items():
            for partition in held.partitions:
                other = owners.setdefault(partition, member_id)
                if other != member_id:
                    raise InvariantError(f"{group_id}: {partition} is held by {other} and by {member_id}")

    # Responses

    def check_committed(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """A response said that these offsets are committed."""
        for (topic, partition), offset in offsets.items():
            if (group_id, topic, partition, offset) not in self.committed:
                raise InvariantError(f"{group_id}: {offset} of {topic}-{partition} was reported as committed")

    def check_fetched(
        self, group_id: str, fetched: Mapping[tuple[str, int], int | None], asked_at: int, *, stable: bool
    ) -> None:
        """A response to a request sent at this position contained these offsets; None means unstable."""
        for (topic, partition), offset in fetched.items():
            place = (group_id, topic, partition)
            possible = self.unstable.since(place, asked_at)
            if offset is None or stable:
                if (offset is None) not in possible:
                    raise InvariantError(f"{place}: reported as {'un' if offset is None else ''}stable")
                if offset is None:
                    continue
            allowed = self.offsets.since(place, asked_at)
            if offset not in allowed:
                raise InvariantError(f"{place}: {offset} was returned, committed are {sorted(allowed)}")

    def check_assigned(
        self, group_id: str, generation: int, member_id: str, who: str, partitions: Iterable[Partition]
    ) -> None:
        """A classic member received its assignment of a generation; a static one is known by its instance
        id."""
        owned = frozenset(partitions)
        owners = self._owners.setdefault((group_id, generation), {})
        for partition in owned:
            other = owners.setdefault(partition, who)
            if other != who:
                raise InvariantError(
                    f"{group_id}: {partition} has two owners in generation {generation}: {other} and {who}"
                )
        written = self._assigned.get((group_id, generation))
        if written is not None and written.get(member_id, frozenset()) != owned:
            raise InvariantError(f"{group_id}: {member_id} received {owned}, written is {written}")
        group = self.groups.get(group_id, Group())
        if written is None and group.epoch is None:
            raise InvariantError(f"{group_id}: {member_id} received {owned} before it was committed")


def partitions_of(assignment: bytes) -> frozenset[Partition]:
    """The partitions of a classic member's assignment."""
    if not assignment:
        return frozenset()
    read, _ = read_versioned(ConsumerProtocolAssignment, assignment)
    return frozenset((topic.topic, index) for topic in read.assigned_partitions for index in topic.partitions)
