"""Data classes of the admin client's calls about groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.model import Node, TopicPartition
from barnabas.security.acls import Operation


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A listed group; `type` is Classic, Consumer, Share or Streams, or empty if the broker does not
    report it."""

    group_id: str
    protocol_type: str
    state: str
    type: str

    @property
    def is_simple(self) -> bool:
        """Whether the group only has committed offsets: no member ever joined."""
        return self.protocol_type == ""


@dataclass(frozen=True, slots=True)
class GroupListings:
    """The groups that the brokers listed, and the brokers that failed."""

    groups: tuple[GroupListing, ...]
    errors: Mapping[Node, KafkaError]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of any type of group; fields that its type does not have are None or empty."""

    member_id: str
    client_id: str
    host: str
    assignment: frozenset[TopicPartition] = frozenset()
    group_instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int | None = None
    target_assignment: frozenset[TopicPartition] | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    # False while a member of a consumer group still uses the classic protocol (KIP-848).
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group of any type but that of streams."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    authorized_operations: tuple[Operation, ...] | None = None
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None

    @property
    def is_simple(self) -> bool:
        """Whether the group only has committed offsets: no member ever joined."""
        return self.protocol_type == ""


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A part of a topology whose tasks run together, with its topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Partitions by subtopology."""

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]
    warmup: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member of a streams group."""

    member_id: str
    member_epoch: int
    client_id: str
    host: str
    process_id: str
    topology_epoch: int
    is_classic: bool
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    group_instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group (KIP-1071)."""

    group_id: str
    state: str
    coordinator: Node
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsMember, ...]
    authorized_operations: tuple[Operation, ...] | None = None


@dataclass(frozen=True, slots=True)
class ShareGroupOffset:
    """The start offset of a share group in a partition."""

    start_offset: int
    leader_epoch: int
