"""A member of a consumer group (KIP-848): an immutable value, rebuilt from its two records.

The transition to the next assignment belongs in `reconcile`.
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

# Special member epochs: join, leave, and temporary leave of a static member.
JOIN_GROUP_MEMBER_EPOCH = 0
LEAVE_GROUP_MEMBER_EPOCH = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2


class MemberState(IntEnum):
    """How far a member is in reconciling its target assignment, by the number in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    # A state of a later release.
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


class ClassicProtocol(NamedTuple):
    """A protocol that a classic member supports, with its subscription."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(NamedTuple):
    """The metadata of a member that uses the classic protocol in a consumer group."""

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
    # Partitions that it must revoke and has not confirmed yet.
    pending_revocation: Assignment = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    @property
    def regex(self) -> str | None:
        """The pattern that it subscribes to, if any."""
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
            else ClassicMemberMetadata(
                classic.session_timeout_ms,
                tuple(
                    ClassicProtocol(protocol.name, bytes(protocol.metadata))
                    for protocol in classic.supported_protocols
                ),
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
        """After the tombstone of its current assignment; more tombstones follow for the rest."""
        return replace(
            self,
            member_epoch=LEAVE_GROUP_MEMBER_EPOCH,
            previous_member_epoch=-1,
            assigned={},
            pending_revocation={},
        )


class TopicPartitions(Protocol):
    """The partitions of a topic, in requests and records."""

    topic_id: Uuid
    partitions: list[int]


def to_assignment(topics: Iterable[TopicPartitions]) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}
