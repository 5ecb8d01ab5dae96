"""A member of a classic group.

What lives here: what it told of itself, its assignment, and its request that waits.  What may not: the group.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from barnabas.base.hashing import java_string_hash
from barnabas.coordinator.group.caller import Caller
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.runtime.loop.promise import Promise

# An assignor's name, and what the member has to say to it.
SupportedProtocol = tuple[str, bytes]

NO_ASSIGNMENT = b""
# Stands for a hash that is yet to be computed; a member whose hash is this one is merely hashed more often.
_NOT_HASHED = 0


@dataclass(frozen=True, slots=True, eq=False)
class ClassicMember:
    """Joined, or loaded from the log.  A decision that changes a member makes another one of it.

    Durable is what the group's record says of it; who waits for a reply, and whether it is new, is soft.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = NO_ASSIGNMENT
    # Soft: JoinGroup and SyncGroup that wait for the others.
    joining: Promise[JoinGroupResponse] | None = None
    syncing: Promise[SyncGroupResponse] | None = None
    # Soft: it has not been in any generation yet.
    is_new: bool = False
    # Maps of Apache Kafka hand members out in this order.
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
        """The same member under another id: a static member that came back, and waits for nothing yet."""
        return replace(
            self, member_id=member_id, joining=None, syncing=None, is_new=False, java_hash=_NOT_HASHED
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def metadata_for(self, protocol: str | None) -> bytes:
        """What it says to this assignor; it must know it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"member {self.member_id} does not know the protocol {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """The first of its protocols that is among these."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} knows none of {sorted(candidates)}")

    @property
    def is_excused(self) -> bool:
        """Whether it need not send heartbeats now; new members may expire while they wait."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def described(self, protocol: str | None) -> DescribeGroupsResponse.DescribedGroupMember:
        """`protocol` None: without what it says to the assignor."""
        return DescribeGroupsResponse.DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata_for(protocol),
            member_assignment=self.assignment,
        )


def protocols_of(request: JoinGroupRequest) -> tuple[SupportedProtocol, ...]:
    return tuple((one.name, bytes(one.metadata)) for one in request.protocols)
