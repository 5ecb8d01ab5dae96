"""A member of a classic group.

What lives here: what it told of itself, its assignment, and its request that waits.  What may not: the group.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from barnabas.base.hashing import java_string_hash
from barnabas.coordinator.group.caller import Caller
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.runtime.loop.promise import Promise

# An assignor's name, and what the member has to say to it.
SupportedProtocol = tuple[str, bytes]

NO_ASSIGNMENT = b""


class ClassicMember:
    """Joined, or loaded from the log.  Who waits for a reply, and whether it is new, is soft."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "java_hash",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[SupportedProtocol],
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = tuple(protocols)
        self.assignment = assignment
        # JoinGroup and SyncGroup that wait for the others.
        self.joining: Promise[JoinGroupResponse] | None = None
        self.syncing: Promise[SyncGroupResponse] | None = None
        # It has not been in any generation yet.
        self.is_new = False
        # Maps of Apache Kafka hand members out in this order.
        self.java_hash = java_string_hash(member_id)

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
        )

    def renamed(self, member_id: str) -> ClassicMember:
        """The same member under another id: a static member that came back."""
        return ClassicMember(
            member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
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
