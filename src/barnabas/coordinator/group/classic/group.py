"""A classic group: its members, its generation and its state.

What lives here: one group's data and the questions that can be asked of it.  What may not: what happens next
(classic_*.py decide), timers, records and replies.

Durable is what the group's last record says, and a group that is loaded begins with that.  The rest is soft:
members that are joining, requests that wait, a generation whose assignment is not written yet.  A decision
never changes a group that is in the table: it works on a copy, which takes the group's place when the
decision is accepted (`ClassicChanges`).
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
    """Where a group is in its life."""

    # No members; perhaps offsets.
    EMPTY = "Empty"
    # Members are waited for.
    PREPARING_REBALANCE = "PreparingRebalance"
    # The leader's assignment is waited for.
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    # Its shard has gone elsewhere.
    DEAD = "Dead"


_CAN_REBALANCE = frozenset((ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY))


_NOBODY: frozenset[str] = frozenset()


class ClassicGroup(Group):
    """One group.  A simple group has offsets and never had members: its protocol type is None."""

    kind: ClassVar[GroupKind] = GroupKind.CLASSIC

    __slots__ = (
        "_supporters",
        "generation",
        "has_newcomer",
        "joining_count",
        "leader_id",
        "members",
        "needs_rebalance",
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
        # When it came into its state; old records do not say.
        self.state_since_ms = now_ms
        self.type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        # Instance id -> member id.
        self.static_members: dict[str, str] = {}
        # The assignment of its record leaves out partitions of members that are gone (KIP-848).
        self.needs_rebalance = False
        # Soft: ids that were given out and did not join yet; members that did not ask for their part yet.
        self.pending_joins: frozenset[str] = _NOBODY
        self.pending_syncs: frozenset[str] = _NOBODY
        # Soft: how many members have a JoinGroup that waits; whether somebody came during the initial delay.
        self.joining_count = 0
        self.has_newcomer = False
        # Topics of all members; None if they cannot be known.
        self.subscribed_topics: frozenset[str] | None = None
        # Protocol -> how many members know it.
        self._supporters: dict[str, int] = {}

    def copy(self) -> ClassicGroup:
        """For a decision to work on; members are values, and so need no copies."""
        twin = copy(self)
        twin.members = self.members.copy()
        twin.static_members = self.static_members.copy()
        twin._supporters = self._supporters.copy()
        return twin

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
        """Of the slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        state = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.transition_to(state, now_ms)
        self.needs_rebalance = False
        self.pending_syncs = _NOBODY

    # Members

    def ordered_members(self) -> list[ClassicMember]:
        """In the order in which Apache Kafka goes through them."""
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
        """A member, or an id that was given out."""
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
        """A member is as this one says from now on."""
        before = self.members[member.member_id]
        self.members[member.member_id] = member
        self.joining_count += (member.joining is not None) - (before.joining is not None)
        if member.protocols != before.protocols:
            self._count_protocols(before, -1)
            self._count_protocols(member, 1)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> None:
        """A static member came back under a new id (KIP-345)."""
        old = self.members.pop(old_id)
        if old.joining is not None:
            self.joining_count -= 1
        self.members[new_id] = old.renamed(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id

    def elect_joined_leader(self) -> bool:
        """The leader must be one who joined; whether there is one."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].joining is None:
            joined = next((one for one in self.ordered_members() if one.joining is not None), None)
            if joined is None:
                return False
            logger.info(
                "group %s: its leader did not join in time; %s leads", self.group_id, joined.member_id
            )
            self.leader_id = joined.member_id
        return True

    @property
    def has_all_joined(self) -> bool:
        return len(self.members) == self.joining_count and not self.pending_joins

    # Protocols

    def _count_protocols(self, member: ClassicMember, change: int) -> None:
        """A member that names a protocol twice supports it once."""
        for name in {name for name, _ in member.protocols}:
            count = self._supporters.get(name, 0) + change
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols may join."""
        distinct = set(names)
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(distinct)
        return self.type == protocol_type and any(
            self._supporters.get(name, 0) == len(self.members) for name in distinct
        )

    def select_protocol(self) -> str:
        """Of those that all members know, the one that most of them want."""
        size = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(hash_map_order(votes), key=votes.__getitem__)

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Of members that are consumers; None where they cannot be known."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                # All versions begin as version 0 does, those of the future too.
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

    # What every group can be asked

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
        """A static member may have been replaced by a later one of its name."""
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
            return  # an admin, or a consumer that assigns itself
        if generation >= 0 or member_id or instance_id is not None:
            self.validate_member(member_id, instance_id)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and not self.is_empty:
            # Old TxnOffsetCommits do not say who commits; others must.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            # The member knows the new generation, so it may go on with the rebalance before it commits.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    @property
    def counts_commits(self) -> bool:
        """Whether a member's commit is as good as a heartbeat now."""
        return self.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._refuse_dead()

    def validate_offset_delete(self) -> None:
        self._refuse_dead()
        if not self.is_empty and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        self._refuse_dead()
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def _refuse_dead(self) -> None:
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
                # All of it counts from when the last member left (KIP-211).
                since_ms = self.state_since_ms
                return (lambda committed_ms: committed_ms) if since_ms is None else (lambda _: since_ms)
            if not (
                self.uses_consumer_protocol
                and self.subscribed_topics is not None
                and self.state is ClassicState.STABLE
            ):
                return None
        return lambda committed_ms: committed_ms
