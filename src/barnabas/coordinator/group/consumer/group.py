"""A consumer group (KIP-848): its state as recorded in the log.

Contains the durable state and the methods that change it, one for each record.  Decisions belong in
`heartbeat`, `leave` and their neighbours.
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
# Wins ties between assignors.
DEFAULT_ASSIGNOR = "uniform"
# The first version of OffsetCommit with member epochs.
MIN_COMMIT_VERSION = 9
# Checked topics are not checked again for this long, unless they change.
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
        # Topic to partition to its owner in the target assignment.
        self.target_owners: dict[Uuid, dict[int, str]] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        # The log still contains a record written by a release before 4.1.
        self.has_partition_metadata = False

        # Everything below is derived from members, targets and patterns.
        self.subscribed: dict[str, SubscriptionCount] = {}
        # Members by instance id, and the number of members per pattern and per assignor.
        self.static_members: dict[str, str] = {}
        self.regexes: dict[str, int] = {}
        self._assignors: dict[str, int] = {}
        # Topic to partition to its current owner, including partitions pending revocation.
        self._owners: dict[Uuid, dict[int, str]] = {}
        self.classic_member_count = 0
        self._classic_protocols: dict[str, int] = {}

        # Soft: when the subscribed topics must be checked again.
        self.metadata_fresh_until_ms = 0

    # The interface of all groups

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
            # From an admin client, or from a consumer with manual assignment.
            return
        if transactional and generation == -1 and not member_id and instance_id is None:
            # A transactional producer from before KIP-447 does not send its member id.
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
        """Always allowed."""

    def validate_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[Entry]:
        return entries.group_tombstone(self.group_id, self.members, self.resolved)

    def offset_expiration(self) -> OffsetExpiration | None:
        return _since_commit

    # Queries

    def member(self, member_id: str) -> ConsumerMember:
        """Returns a member; raises UNKNOWN_MEMBER_ID if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """The target assignment; a static member inherits that of the member it replaces."""
        if instance_id is None:
            return self.target.get(member_id, NO_PARTITIONS)
        previous = self.static_members.get(instance_id)
        return NO_PARTITIONS if previous is None else self.target.get(previous, NO_PARTITIONS)

    def is_owned(self, topic: Uuid, partition: int) -> bool:
        owners = self._owners.get(topic)
        return owners is not None and partition in owners

    def waits_for_unreleased_partitions(self, member: ConsumerMember) -> bool:
        """Whether other members have not yet released partitions of its target."""
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
        """The assignor that most members request, with `new` in place of `old`; None if none is requested."""
        counts = {name: self._assignors[name] for name in sorted(self._assignors, key=_is_not_default)}
        count_one(counts, old.server_assignor if old else None, -1)
        requested = new.server_assignor if new else None
        if requested is not None:
            # The first wins a tie; an assignor that only this member requests comes before the others.
            counts = (
                {requested: 1, **counts}
                if requested not in counts
                else {**counts, requested: counts[requested] + 1}
            )
        return max(counts, key=counts.__getitem__, default=None)

    def supports_classic_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether all classic members support one of these protocols."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if not self.members:
            return bool(names)
        return any(self._classic_protocols.get(name, 0) == self.classic_member_count for name in names)

    def all_use_classic_protocol_except(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether only classic members remain without these members."""
        removed = list(leaving)
        classic = self.classic_member_count - sum(member.classic is not None for member in removed)
        return classic == len(self.members) - len(removed)

    # Subscriptions after a member change

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

    # Changes

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
            # A protocol that a member lists twice counts once.
            for name in {protocol.name for protocol in member.classic.protocols}:
                count_one(self._classic_protocols, name, step)

    def _release(self, member: ConsumerMember) -> None:
        """Free the member's partitions, except those that another member already owns."""
        for assignment in (member.assigned, member.pending_revocation):
            for topic, partitions in assignment.items():
                _remove_owner(self._owners, topic, partitions, member.member_id)

    def update_target(self, member_id: str, target: Assignment) -> None:
        before = self.target.get(member_id, NO_PARTITIONS)
        for topic, partitions in before.items():
            _remove_owner(self.target_owners, topic, partitions - target.get(topic, frozenset()), member_id)
        for topic, partitions in target.items():
            self.target_owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
        self.target[member_id] = target

    def remove_target(self, member_id: str) -> None:
        self.update_target(member_id, NO_PARTITIONS)
        del self.target[member_id]

    def update_regex(self, pattern: str, resolved: ResolvedRegex | None) -> None:
        """None removes the pattern."""
        old = self.resolved.pop(pattern, None)
        if old is not None:
            count_regex(self.subscribed, old.topics, -1)
        if resolved is not None:
            self.resolved[pattern] = resolved
            count_regex(self.subscribed, resolved.topics, 1)


def _remove_owner(
    owners: dict[Uuid, dict[int, str]], topic: Uuid, partitions: Iterable[int], member_id: str
) -> None:
    topic_owners = owners.get(topic)
    if topic_owners is None:
        return
    for partition in partitions:
        if topic_owners.get(partition) == member_id:
            del topic_owners[partition]
    if not topic_owners:
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


def _since_commit(commit_ms: int) -> int:
    return commit_ms
