"""The requests of a member of a classic group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.consumer.assignors.simple import Assignor, Plan
from barnabas.client.errors.base import ClientError, check, error_for
from barnabas.client.group_protocol import (
    Assignment,
    Subscription,
    read_subscription,
    write_assignment,
    write_subscription,
)
from barnabas.client.model import NO_EPOCH, TopicPartition
from barnabas.config.settings import Settings
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_TYPE = "consumer"


@dataclass(frozen=True, slots=True)
class Generation:
    """The member's current generation; without an id it is not in the group."""

    id: int = NO_EPOCH
    member_id: str = ""
    protocol: str = ""


class ClassicRequests:
    """Builds requests from the member's fixed settings."""

    def __init__(self, settings: Settings, assignors: Sequence[Assignor]) -> None:
        self._assignors = assignors
        self._group_id: str = settings["group.id"]
        self.group_instance_id: str | None = settings["group.instance.id"]
        self._session_timeout_ms: int = settings["session.timeout.ms"]
        self.rebalance_timeout_ms: int = settings["max.poll.interval.ms"]
        self._rack: str | None = settings["client.rack"] or None
        self.excludes_internal: bool = settings["exclude.internal.topics"]

    def join(
        self,
        generation: Generation,
        topics: Iterable[str],
        owned: Sequence[TopicPartition],
        reason: str,
    ) -> JoinGroupRequest:
        wanted = tuple(topics)
        protocols = []
        for assignor in self._assignors:
            subscription = Subscription(wanted, assignor.user_data(), tuple(owned), generation.id, self._rack)
            protocols.append(
                JoinGroupRequest.Protocol(name=assignor.name, metadata=write_subscription(subscription))
            )
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=generation.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=reason,
        )

    def check_joined(self, response: JoinGroupResponse) -> None:
        check(response.error_code)
        if not any(assignor.name == response.protocol_name for assignor in self._assignors):
            raise error_for(
                23, f"the group chose the assignor {response.protocol_name}, which is not configured"
            )

    def members(self, joined: JoinGroupResponse) -> dict[str, Subscription]:
        return {
            member.member_id: read_subscription(member.metadata, member.group_instance_id)
            for member in joined.members
        }

    async def sync(
        self, connection: BrokerConnection, generation: Generation, plan: Mapping[str, bytes]
    ) -> bytes:
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member, assignment=assignment)
                for member, assignment in plan.items()
            ],
        )
        limit_ms = self.rebalance_timeout_ms
        response = await connection.send(request, SyncGroupResponse, timeout_ms=limit_ms)
        check(response.error_code)
        return response.assignment

    async def heartbeat(self, connection: BrokerConnection, generation: Generation) -> int:
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self.group_instance_id,
        )
        return (await connection.send(request, HeartbeatResponse)).error_code

    async def leave(self, connection: BrokerConnection, generation: Generation, reason: str) -> None:
        member = LeaveGroupRequest.MemberIdentity(
            member_id=generation.member_id, group_instance_id=self.group_instance_id, reason=reason
        )
        request = LeaveGroupRequest(group_id=self._group_id, members=[member])
        if connection.version_for(LeaveGroupRequest.schema.key or 0) < 3:
            request = LeaveGroupRequest(group_id=self._group_id, member_id=generation.member_id)
        await connection.send(request, LeaveGroupResponse)

    def error(self, code: int) -> ClientError:
        return error_for(code)


def assignments_of(plan: Plan) -> dict[str, bytes]:
    return {member: write_assignment(Assignment(tuple(mine))) for member, mine in plan.items()}
