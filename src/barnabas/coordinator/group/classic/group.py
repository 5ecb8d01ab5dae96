"""A classic group: its members, its generation and its state.

What lives here: one group's data and the questions that can be asked of it.  What may not: what happens next
(classic_*.py decide), timers and records.

All of it is soft but for what the group's last record says; a group that is loaded begins with that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import ClassVar, Protocol

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.java_order import hash_map_order, order_by_hash
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.classic.member import ClassicMember, SupportedProtocol
from barnabas.coordinator.group.table import Group, GroupKind, OffsetExpiration
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.records.group import GroupMetadataKey
from barnabas.runtime.loop.promise import Promise

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


class Sessions(Protocol):
    """Who knows when a member was heard of last."""

    def expect_heartbeat(self, group: ClassicGroup, member: ClassicMember) -> None: ...


class ClassicGroup(Group):
    """One group.  A simple group has offsets and never had members: its protocol type is None."""

    kind: ClassVar[GroupKind] = GroupKind.CLASSIC

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
        # Ids that were given out and did not join yet; members that did not ask for their assignment yet.
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.joining_count = 0
        # Topics of all members; None if they cannot be known.
        self.subscribed_topics: frozenset[str] | None = None
        # Whether somebody came during the initial delay.
        self.has_newcomer = False
        # Set once it has members.
        self.sessions: Sessions | None = None
        self._supporters: dict[str, int] = {}

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
        self.pending_syncs.clear()

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
        self.pending_joins.discard(member.member_id)

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
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[SupportedProtocol],
        rebalance_ms: int,
        session_ms: int,
    ) -> None:
        """It joins again, perhaps with something new to say."""
        self._count_protocols(member, -1)
        member.protocols = tuple(protocols)
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """A static member came back under a new id (KIP-345).  A request of its old self is fenced."""
        old = self.members.pop(old_id)
        fenced = JoinGroupResponse(
            error_code=ErrorCode.FENCED_INSTANCE_ID,
            member_id=old_id,
            protocol_name=None,
            leader="",
            members=[],
        )
        self.answer_join(old, fenced)
        self.answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, assignment=b""))
        new = old.renamed(new_id)
        self.members[new_id] = new
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

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

    # Requests that wait

    def wait_for_join(self, member: ClassicMember, reply: Promise[JoinGroupResponse]) -> None:
        """An earlier request of the same member is never answered: its connection is taken for dead."""
        if member.joining is None:
            self.joining_count += 1
        member.joining = reply

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        """If it waits."""
        reply, member.joining = member.joining, None
        if reply is not None:
            self.joining_count -= 1
            reply.set(response)

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """If it waits; whether it did."""
        reply, member.syncing = member.syncing, None
        if reply is None:
            return False
        reply.set(response)
        return True

    # Protocols

    def _count_protocols(self, member: ClassicMember, change: int) -> None:
        for name, _ in member.protocols:
            self._supporters[name] = self._supporters.get(name, 0) + change

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

    def offsets_committed(self, member_id: str) -> None:
        member = self.members.get(member_id)
        is_alive = self.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)
        if member is not None and is_alive and self.sessions is not None:
            self.sessions.expect_heartbeat(self, member)

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
