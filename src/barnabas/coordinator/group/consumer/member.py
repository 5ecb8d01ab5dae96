"""A member of a consumer group (KIP-848), as the log knows it.

What lives here: the member as an immutable value, and how the two records that tell of it change it.  What
may not: how it gets from one assignment to the next (`reconcile`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, Protocol

from barnabas.base.ids import Uuid
from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.protocol.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

# Member epochs with a meaning of their own: it joins, it is gone, and a static one that will be back.
JOINING_EPOCH = 0
LEFT_EPOCH = -1
LEFT_FOR_A_WHILE_EPOCH = -2


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment, by the number in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    # Of a later release.
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


class ClassicProtocol(NamedTuple):
    """A protocol that a member of the classic kind named when it joined, with its subscription."""

    name: str
    metadata: bytes


class ClassicTraits(NamedTuple):
    """What is known of a member that uses the classic protocol inside a consumer group."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_names: frozenset[str] = frozenset()
    subscribed_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Assignment = field(default_factory=dict)
    # What it was told to give up and has not yet said to have given up.
    pending_revocation: Assignment = field(default_factory=dict)
    classic: ClassicTraits | None = None

    @property
    def regex(self) -> str | None:
        """The pattern that it subscribes to, if there is one."""
        return self.subscribed_regex or None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_names=frozenset(value.subscribed_topic_names),
            subscribed_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicTraits(
                classic.session_timeout_ms,
                tuple(ClassicProtocol(one.name, bytes(one.metadata)) for one in classic.supported_protocols),
            ),
        )

    def with_current_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=to_assignment(value.assigned_partitions),
            pending_revocation=to_assignment(value.partitions_pending_revocation),
        )

    def without_assignment(self) -> ConsumerMember:
        """After the tombstone of its current assignment: the rest of it goes with the next ones."""
        return replace(
            self,
            member_epoch=LEFT_EPOCH,
            previous_member_epoch=-1,
            assigned={},
            pending_revocation={},
        )


class TopicPartitions(Protocol):
    """How requests and records name partitions of a topic."""

    topic_id: Uuid
    partitions: list[int]


def to_assignment(topics: Iterable[TopicPartitions]) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}
