"""A member of a classic group: its metadata, its assignment, and its waiting request."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from barnabas.base.hashing import java_string_hash
from barnabas.coordinator.group.caller import Caller
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.runtime.loop.promise import Promise

# The name of an assignor, and the member's metadata for it.
SupportedProtocol = tuple[str, bytes]

NO_ASSIGNMENT = b""
# Marks a hash that is not computed yet; a member with this hash is merely hashed more often.
_NOT_HASHED = 0


@dataclass(frozen=True, slots=True, eq=False)
class ClassicMember:
    """A member that joined or was loaded from the log.  Immutable: a change creates a new instance.

    The fields in the group's record are durable; waiting requests and `is_new` are soft.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = NO_ASSIGNMENT
    # Soft: waiting JoinGroup and SyncGroup.
    joining: Promise[JoinGroupResponse] | None = None
    syncing: Promise[SyncGroupResponse] | None = None
    # Soft: not yet part of any generation.
    is_new: bool = False
    # Determines the iteration order of Apache Kafka's maps.
    java_hash: int = _NOT_HASHED

    def __post_init__(self) -> None:
        if self.java_hash == _NOT_HASHED:
            object.__setattr__(self, "java_hash", java_string_hash(self.member_id))

    @classmethod
    def of_request(cls, member_id: str, request: JoinGroupRequest, caller: Caller) -> ClassicMember:
        return cls(
            member_id,
            request.group_instance_id,
            caller.client_id,
            caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols_of(request),
            is_new=True,
        )

    def renamed(self, member_id: str) -> ClassicMember:
        """The same member with another id: a static member that rejoined."""
        return replace(self, member_id=member_id, is_new=False, java_hash=_NOT_HASHED)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def metadata_for(self, protocol: str | None) -> bytes:
        """The member's metadata for this assignor, which it must support."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"member {self.member_id} does not support the protocol {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """The first of its protocols that is a candidate."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} supports none of {sorted(candidates)}")

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether the member needs no heartbeat now.  New members can expire while they wait."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def described(self, protocol: str | None) -> DescribeGroupsResponse.DescribedGroupMember:
        """Omits the member metadata if `protocol` is None."""
        return DescribeGroupsResponse.DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata_for(protocol),
            member_assignment=self.assignment,
        )


def protocols_of(request: JoinGroupRequest) -> tuple[SupportedProtocol, ...]:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
