"""A consumer group (KIP-848): all that the log says of it.

What lives here: the group's durable state and the only ways in which it changes, one for each record.  What
may not: decisions (consumer_heartbeat.py and its neighbours).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.assignors.spec import NO_PARTITIONS, Assignment
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.entries import ResolvedRegex
from barnabas.coordinator.group.consumer.member import ConsumerMember, MemberState
from barnabas.coordinator.group.subscription.subscription import (
    SubscriptionCount,
    count_names,
    count_one,
    count_regex,
    is_homogeneous,
)
from barnabas.coordinator.group.table import Group, GroupKind, OffsetExpiration

PROTOCOL_TYPE = "consumer"
# Comes first where members are at odds.
DEFAULT_ASSIGNOR = "uniform"
# The first version of OffsetCommit that carries member epochs.
MIN_COMMIT_VERSION = 9
# A group whose topics were looked at is not looked at again for so long, unless they change.
METADATA_REFRESH_MS = 2**31 - 1


class ConsumerGroup(Group):
    """One group."""

    kind = GroupKind.CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, Assignment] = {}
        # Topic to partition to the member that is to own it.
        self.target_owners: dict[Uuid, dict[int, str]] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        # A record that releases before 4.1 wrote is still in the log.
        self.has_partition_metadata = False

        # All of the following is counted from members, targets and patterns.
        self.subscribed: dict[str, SubscriptionCount] = {}
        # Members by instance id, and how many use each pattern and each assignor.
        self.static_members: dict[str, str] = {}
        self.regexes: dict[str, int] = {}
        self._assignors: dict[str, int] = {}
        # Topic to partition to the member that owns it, or has not yet given it up.
        self._owners: dict[Uuid, dict[int, str]] = {}
        self.classic_member_count = 0
        self._classic_protocols: dict[str, int] = {}

        # Soft: until when the subscribed topics count as seen.
        self.metadata_fresh_until_ms = 0

    # What it says to everybody

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def member_count(self) -> int:
        return len(self.members)

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        api_version: int,
    ) -> None:
        if generation < 0 and not self.members:
            # From a tool, or from a consumer that assigns partitions to itself.
            return
        if transactional and generation == -1 and not member_id and instance_id is None:
            # A transactional producer of before KIP-447 does not name its member.
            return
        member = self.member(member_id)
        if not transactional and member.classic is None and api_version < MIN_COMMIT_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {MIN_COMMIT_VERSION} or above must be used by members using the "
                "modern group protocol",
            )
        _validate_epoch(member, generation)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        _validate_epoch(self.member(member_id or ""), member_epoch)

    def validate_offset_delete(self) -> None:
        """Nothing forbids it."""

    def validate_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[Entry]:
        return entries.group_tombstone(self.group_id, self.members, self.resolved)

    def offset_expiration(self) -> OffsetExpiration | None:
        return _from_the_commit_on

    # Looking up

    def member(self, member_id: str) -> ConsumerMember:
        """A member, or UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return found

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """A static member finds what was meant for the one in whose place it comes."""
        if instance_id is None:
            return self.target.get(member_id, NO_PARTITIONS)
        previous = self.static_members.get(instance_id)
        return NO_PARTITIONS if previous is None else self.target.get(previous, NO_PARTITIONS)

    def is_owned(self, topic: Uuid, partition: int) -> bool:
        owners = self._owners.get(topic)
        return owners is not None and partition in owners

    def waits_for_partitions(self, member: ConsumerMember) -> bool:
        """Whether others have not yet given up what it is to get."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        target = self.target.get(member.member_id, NO_PARTITIONS)
        return any(
            self.is_owned(topic, partition)
            for topic, partitions in target.items()
            for partition in partitions - member.assigned.get(topic, frozenset())
        )

    def preferred_assignor(
        self, old: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str | None:
        """The one that most members ask for, once `new` is in the place of `old`; None: nobody asks."""
        counts = {name: self._assignors[name] for name in sorted(self._assignors, key=_is_not_default)}
        count_one(counts, old.server_assignor if old else None, -1)
        asked = new.server_assignor if new else None
        if asked is not None:
            # Of equals the first counts; what nobody else asks for is put before the others.
            counts = {asked: 1, **counts} if asked not in counts else {**counts, asked: counts[asked] + 1}
        return max(counts, key=counts.__getitem__, default=None)

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether all members of the classic kind know one of these protocols."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if not self.members:
            return bool(names)
        return any(self._classic_protocols.get(name, 0) == self.classic_member_count for name in names)

    def all_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether only members of the classic kind are left when these are gone."""
        removed = list(leaving)
        classic = self.classic_member_count - sum(member.classic is not None for member in removed)
        return classic == len(self.members) - len(removed)

    # What subscriptions become when a member changes

    def subscribed_after(
        self, old: ConsumerMember | None, new: ConsumerMember | None
    ) -> dict[str, SubscriptionCount]:
        counts = dict(self.subscribed)
        count_names(counts, old.subscribed_names if old else (), -1)
        count_names(counts, new.subscribed_names if new else (), 1)
        dropped = old.regex if old else None
        if dropped is not None and dropped != (new.regex if new else None) and self.regexes.get(dropped) == 1:
            count_regex(counts, self.resolved.get(dropped, ResolvedRegex()).topics, -1)
        return counts

    def regexes_after(self, old: ConsumerMember | None, new: ConsumerMember | None) -> Mapping[str, int]:
        before, after = (old.regex if old else None), (new.regex if new else None)
        if before == after:
            return self.regexes
        regexes = dict(self.regexes)
        count_one(regexes, before, -1)
        count_one(regexes, after, 1)
        return regexes

    @property
    def is_homogeneous(self) -> bool:
        return is_homogeneous(self.regexes, self.subscribed, len(self.members))

    # The ways in which it changes

    def update_member(self, new: ConsumerMember) -> None:
        old = self.members.get(new.member_id)
        self.members[new.member_id] = new
        if old is not None:
            self._count(old, -1)
        self._count(new, 1)
        if old is not None:
            self._release(old)
        for assignment in (new.assigned, new.pending_revocation):
            for topic, partitions in assignment.items():
                self._owners.setdefault(topic, {}).update(dict.fromkeys(partitions, new.member_id))
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._count(old, -1)
        self._release(old)
        if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
            del self.static_members[old.instance_id]

    def _count(self, member: ConsumerMember, step: int) -> None:
        count_names(self.subscribed, member.subscribed_names, step)
        count_one(self._assignors, member.server_assignor, step)
        count_one(self.regexes, member.regex, step)
        if member.classic is not None:
            self.classic_member_count += step
            # A member that names a protocol twice supports it once.
            for name in {protocol.name for protocol in member.classic.protocols}:
                count_one(self._classic_protocols, name, step)

    def _release(self, member: ConsumerMember) -> None:
        """What it owned is free, except what another owns by now."""
        for assignment in (member.assigned, member.pending_revocation):
            for topic, partitions in assignment.items():
                _take_away(self._owners, topic, partitions, member.member_id)

    def update_target(self, member_id: str, target: Assignment) -> None:
        before = self.target.get(member_id, NO_PARTITIONS)
        for topic, partitions in before.items():
            _take_away(self.target_owners, topic, partitions - target.get(topic, frozenset()), member_id)
        for topic, partitions in target.items():
            self.target_owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
        self.target[member_id] = target

    def remove_target(self, member_id: str) -> None:
        self.update_target(member_id, NO_PARTITIONS)
        del self.target[member_id]

    def update_regex(self, pattern: str, resolved: ResolvedRegex | None) -> None:
        """With None the pattern is gone."""
        old = self.resolved.pop(pattern, None)
        if old is not None:
            count_regex(self.subscribed, old.topics, -1)
        if resolved is not None:
            self.resolved[pattern] = resolved
            count_regex(self.subscribed, resolved.topics, 1)


def _take_away(
    owners: dict[Uuid, dict[int, str]], topic: Uuid, partitions: Iterable[int], member_id: str
) -> None:
    of_topic = owners.get(topic)
    if of_topic is None:
        return
    for partition in partitions:
        if of_topic.get(partition) == member_id:
            del of_topic[partition]
    if not of_topic:
        del owners[topic]


def _validate_epoch(member: ConsumerMember, received: int) -> None:
    if received == member.member_epoch:
        return
    if member.classic is not None:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {received} does not match the expected member epoch "
            f"{member.member_epoch}.",
        )
    raise KafkaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {received} does not match the expected member epoch "
        f"{member.member_epoch}.",
    )


def _is_not_default(assignor: str) -> bool:
    return assignor != DEFAULT_ASSIGNOR


def _from_the_commit_on(commit_ms: int) -> int:
    return commit_ms
