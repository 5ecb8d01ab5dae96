"""Classic groups without a broker: members that join, sync and leave with one call each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.record_frame import write_versioned
from barnabas.protocol.records.consumer_protocol import ConsumerProtocolSubscription
from barnabas.runtime.loop.promise import Promise
from tests.coordinator.shard_world import ShardWorld, value_of

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000
CALLER = Caller("client", "/127.0.0.1", 9)


def subscription(*topics: str) -> bytes:
    return write_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)


TOPIC = subscription("t")


class ClassicWorld(ShardWorld[GroupMachine]):
    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(lambda: GroupMachine(0), settings)

    @property
    def group(self) -> ClassicGroup:
        return self.machine.table.find_kind(GROUP, ClassicGroup)

    @property
    def state(self) -> str:
        return self.group.state_name

    def events(self) -> list[EventKind]:
        return [event.kind for event in self.machine.events.of(GROUP)]

    # Requests

    def joining(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        protocols: Sequence[tuple[str, bytes]] = (("range", TOPIC),),
        protocol_type: str = "consumer",
        instance_id: str | None = None,
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        reason: str | None = None,
    ) -> Promise[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name=name, metadata=data) for name, data in protocols],
            reason=reason,
        )
        caller = CALLER._replace(api_version=version)
        return self.ask(lambda machine, context: machine.classic.join(request, caller, context))

    def join(self, member_id: str = "", **more: Any) -> Any:
        """The response, or PENDING."""
        return value_of(self.joining(member_id, **more))

    def new_id(self, **more: Any) -> str:
        """A member id, as assigned to a new client."""
        response = self.join(**more)
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED, response
        assert response.member_id
        return str(response.member_id)

    def syncing(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
    ) -> Promise[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member_id, assignment=data)
                for member_id, data in (assignments or {}).items()
            ],
        )
        return self.ask(lambda machine, context: machine.classic.sync(request, context))

    def sync(self, member_id: str, generation: int, *more: Any, **options: Any) -> Any:
        return value_of(self.syncing(member_id, generation, *more, **options))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        response = value_of(self.ask(lambda machine, context: machine.classic.heartbeat(request, context)))
        return response.code if isinstance(response, KafkaError) else ErrorCode(response.error_code)

    def leave(self, *members: tuple[str, str | None], group_id: str = GROUP) -> list[ErrorCode]:
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=member_id, group_instance_id=instance_id, reason="over"
                )
                for member_id, instance_id in members
            ],
        )
        response = value_of(self.ask(lambda machine, context: machine.classic.leave(request, context)))
        assert isinstance(response, LeaveGroupResponse), response
        assert not response.error_code
        return [ErrorCode(member.error_code) for member in response.members]

    # Whole groups

    def stable(self, count: int, *, instances: Sequence[str] = (), **more: Any) -> list[str]:
        """A stable group of generation 1, each member with its own assignment; the leader comes first."""
        if instances:
            joins = [self.joining(instance_id=instance_id, **more) for instance_id in instances]
        else:
            joins = [self.joining(self.new_id(**more), **more) for _ in range(count)]
        self.pass_ms(2 * INITIAL_DELAY_MS)
        responses = [value_of(promise) for promise in joins]
        leader = next(response for response in responses if response.member_id == response.leader)
        members = sorted(
            (response.member_id for response in responses),
            key=lambda member_id: member_id != leader.member_id,
        )
        waiting = [self.syncing(member, leader.generation_id) for member in members[1:]]
        self.sync(members[0], leader.generation_id, {member: member.encode() for member in members})
        assert all(value_of(promise).error_code == 0 for promise in waiting)
        assert self.state == "Stable"
        return members
