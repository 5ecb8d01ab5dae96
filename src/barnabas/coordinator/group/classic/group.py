"""A classic group: its members, generation and state.

Contains the data of one group and queries over it.  State transitions belong in `join`, `sync` and
`rebalance`; records in `records`.

The group's last record is its durable state.  The rest is soft: joining members, waiting requests, and a
generation whose assignment is not written yet.  A decision never changes a group in the table: it works on a
copy, which replaces the group when the decision is accepted (`ClassicChanges`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import copy
from enum import StrEnum
from typing import ClassVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.java_order import hash_map_order, order_by_hash
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.classic.member import ClassicMember
from barnabas.coordinator.group.table import Group, GroupKind, OffsetExpiration
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.records.group import GroupMetadataKey

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_SIZE = 2


class ClassicState(StrEnum):
    """The states of a classic group."""

    # No members, but perhaps offsets.
    EMPTY = "Empty"
    # Waits for members to join.
    PREPARING_REBALANCE = "PreparingRebalance"
    # Waits for the leader's assignment.
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    # The shard was unloaded.
    DEAD = "Dead"


_CAN_REBALANCE = frozenset((ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY))


_NO_MEMBERS: frozenset[str] = frozenset()


class ClassicGroup(Group):
    """One group.  A simple group has offsets but never had members: its protocol type is None."""

    kind: ClassVar[GroupKind] = GroupKind.CLASSIC

    __slots__ = (
        "_supported_protocols",
        "generation",
        "joining_count",
        "leader_id",
        "members",
        "needs_rebalance",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "state",
        "state_since_ms",
        "static_members",
        "subscribed_topics",
        "type",
    )

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        super().__init__(group_id)
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        # The time of the last state change; missing in old records.
        self.state_since_ms = now_ms
        self.type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        # Instance id -> member id.
        self.static_members: dict[str, str] = {}
        # The assignment in its record excludes the partitions of removed members (KIP-848).
        self.needs_rebalance = False
        # Soft: assigned member ids that have not joined yet; members that have not sent SyncGroup yet.
        self.pending_joins: frozenset[str] = _NO_MEMBERS
        self.pending_syncs: frozenset[str] = _NO_MEMBERS
        # Soft: the number of waiting JoinGroups; whether a member joined during the initial delay.
        self.joining_count = 0
        self.new_member_added = False
        # The topics of all members; None if unknown.
        self.subscribed_topics: frozenset[str] | None = None
        # Protocol -> the number of members that support it.
        self._supported_protocols: dict[str, int] = {}

    def copy(self) -> ClassicGroup:
        """A copy for a decision to work on; members are immutable and therefore shared."""
        clone = copy(self)
        clone.members = self.members.copy()
        clone.static_members = self.static_members.copy()
        clone._supported_protocols = self._supported_protocols.copy()
        return clone

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id}, {self.state}, generation {self.generation}, {len(self.members)})"
        )

    # State

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in _CAN_REBALANCE

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The maximum of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        state = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.transition_to(state, now_ms)
        self.needs_rebalance = False

    # Members

    def ordered_members(self) -> list[ClassicMember]:
        """In the iteration order of Apache Kafka."""
        return order_by_hash(self.members.values(), lambda member: member.java_hash)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.pending_joins -= {member.member_id}

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.joining is not None:
                self.joining_count -= 1
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = self.ordered_members()[0].member_id if self.members else None
        if member_id in self.pending_joins:
            self.pending_joins -= {member_id}
        if member_id in self.pending_syncs:
            self.pending_syncs -= {member_id}

    def change(self, member: ClassicMember) -> None:
        """Replace a member with this version of it."""
        before = self.members[member.member_id]
        self.members[member.member_id] = member
        self.joining_count += (member.joining is not None) - (before.joining is not None)
        if member.protocols != before.protocols:
            self._count_protocols(before, -1)
            self._count_protocols(member, 1)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> None:
        """A static member rejoined with a new member id (KIP-345); the old one no longer waits."""
        self.members[new_id] = self.members.pop(old_id).renamed(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; returns False if there is none."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].joining is None:
            joined = next((member for member in self.ordered_members() if member.joining is not None), None)
            if joined is None:
                return False
            logger.info(
                "group %s: the leader did not join in time; %s takes over", self.group_id, joined.member_id
            )
            self.leader_id = joined.member_id
        return True

    @property
    def has_all_joined(self) -> bool:
        return len(self.members) == self.joining_count and not self.pending_joins

    # Protocols

    def _count_protocols(self, member: ClassicMember, change: int) -> None:
        """A protocol that a member lists twice counts once."""
        for name in {name for name, _ in member.protocols}:
            count = self._supported_protocols.get(name, 0) + change
            if count:
                self._supported_protocols[name] = count
            else:
                del self._supported_protocols[name]

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols may join."""
        distinct = set(names)
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(distinct)
        return self.type == protocol_type and any(
            self._supported_protocols.get(name, 0) == len(self.members) for name in distinct
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members support."""
        size = len(self.members)
        candidates = {name for name, count in self._supported_protocols.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(hash_map_order(votes), key=votes.__getitem__)

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """The topics of a group of consumers; None if unknown."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                # All versions start with the fields of version 0, including future ones.
                subscription, _ = ConsumerProtocolSubscription.decode_from(
                    member.metadata_for(self.protocol), _VERSION_SIZE, 0
                )
                topics.update(subscription.topics)
        except ProtocolError as error:
            logger.warning(
                "group %s: a subscription cannot be read, so its topics are not known: %s",
                self.group_id,
                error,
            )
            return None
        return frozenset(topics)

    # The interface of all groups

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return self.type or ""

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def member_count(self) -> int:
        return len(self.members)

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def validate_member(self, member_id: str, instance_id: str | None) -> None:
        """A static member may have been replaced by a newer one with the same instance id."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        api_version: int,
    ) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.is_empty:
            return  # an admin client, or a consumer with manual assignment
        if generation >= 0 or member_id or instance_id is not None:
            self.validate_member(member_id, instance_id)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and not self.is_empty:
            # Old TxnOffsetCommits do not contain the member id; other commits must.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            # The member knows the new generation, so it can finish the rebalance before it commits.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    @property
    def commit_renews_session(self) -> bool:
        """Whether a member's commit currently renews its session."""
        return self.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._check_not_dead()

    def validate_offset_delete(self) -> None:
        self._check_not_dead()
        if not self.is_empty and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        self._check_not_dead()
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def _check_not_dead(self) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def tombstones(self) -> list[Entry]:
        return [Entry(GroupMetadataKey(group=self.group_id), None)]

    def offset_expiration(self) -> OffsetExpiration | None:
        if self.type is not None:
            if self.is_empty:
                # Retention starts when the last member left (KIP-211).
                since_ms = self.state_since_ms
                return (lambda committed_ms: committed_ms) if since_ms is None else (lambda _: since_ms)
            if not (
                self.uses_consumer_protocol
                and self.subscribed_topics is not None
                and self.state is ClassicState.STABLE
            ):
                return None
        return lambda committed_ms: committed_ms
