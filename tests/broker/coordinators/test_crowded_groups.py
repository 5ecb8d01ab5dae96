"""A thousand members in a hundred groups: all join, share their generation, and leave."""

from __future__ import annotations

import asyncio
import resource
import struct
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.schema import Message
from tests.broker.worlds.live_broker import live_broker

MEMBERS = 1_000
GROUPS = 100
PER_GROUP = MEMBERS // GROUPS
PATIENCE_S = 120
DESCRIPTORS_NEEDED = MEMBERS + 200
BEAT_EACH_S = 0.1
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Member:
    """One client on its own connection."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self.crowd = crowd
        self.group_id = f"group-{number % GROUPS}"
        self.member_id = ""
        self.generation = -1
        self.assignment = b""

    async def open(self, address: tuple[str, int]) -> None:
        self._reader, self._writer = await asyncio.open_connection(*address)

    async def ask(self, request: Message, version: int) -> Any:
        self._writer.write(write_request(request, version, 1, "crowd"))
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        assert request.schema.key is not None
        return read_response(await self._reader.readexactly(size), api(request.schema.key), version)[1]

    async def live(self) -> None:
        """Join again and again until the whole crowd has settled."""
        given = await self.ask(self._join(), 9)
        while given.error_code in _NOT_READY:
            await asyncio.sleep(BEAT_EACH_S)
            given = await self.ask(self._join(), 9)
        assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
        self.member_id = given.member_id
        while not await self._generation():
            pass

    async def _generation(self) -> bool:
        """One generation; whether it was the last one."""
        joined = await self.ask(self._join(), 9)
        assert joined.error_code == 0, joined
        plan = {one.member_id: one.member_id.encode() for one in joined.members}
        synced = await self.ask(self._sync(joined.generation_id, plan), 5)
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        assert synced.error_code == 0, synced
        self.generation, self.assignment = joined.generation_id, synced.assignment
        if joined.leader == self.member_id:
            self.crowd.sizes[self.group_id] = len(plan)
        while not self.crowd.is_settled:
            request = HeartbeatRequest(
                group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
            )
            beat = await self.ask(request, 4)
            if beat.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return False
            assert beat.error_code == 0, beat
            await asyncio.sleep(BEAT_EACH_S)
        return True

    async def leave(self) -> int:
        members = [LeaveGroupRequest.MemberIdentity(member_id=self.member_id)]
        left = await self.ask(LeaveGroupRequest(group_id=self.group_id, members=members), 5)
        code: int = left.error_code or left.members[0].error_code
        return code

    def _join(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="crowd",
            protocols=[JoinGroupRequest.Protocol(name="any", metadata=b"")],
        )

    def _sync(self, generation: int, plan: dict[str, bytes]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=self.member_id,
            protocol_type="crowd",
            protocol_name="any",
            assignments=[SyncGroupRequest.Assignment(member_id=k, assignment=v) for k, v in plan.items()],
        )

    def close(self) -> None:
        self._writer.close()


class Crowd:
    """All members."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.members = [Member(self, number) for number in range(MEMBERS)]

    @property
    def is_settled(self) -> bool:
        return len(self.sizes) == GROUPS and set(self.sizes.values()) == {PER_GROUP}

    async def live(self, address: tuple[str, int]) -> None:
        first = self.members[0]
        await first.open(address)
        await first.ask(FindCoordinatorRequest(key=first.group_id), 3)
        for member in self.members[1:]:
            await member.open(address)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(member.live() for member in self.members))
            await self.look()
            assert set(await asyncio.gather(*(member.leave() for member in self.members))) == {0}
            listed = await first.ask(ListGroupsRequest(), 5)
            assert {one.group_state for one in listed.groups} == {"Empty"}
        for member in self.members:
            member.close()

    async def look(self) -> None:
        listed = await self.members[0].ask(ListGroupsRequest(states_filter=["Stable"]), 5)
        assert len(listed.groups) == GROUPS
        for group in range(GROUPS):
            ours = [member for member in self.members if member.group_id == f"group-{group}"]
            assert len({member.generation for member in ours}) == 1
            assert all(member.assignment == member.member_id.encode() for member in ours)


def test_a_thousand_members_of_a_hundred_groups_settle() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_NEEDED:
        pytest.skip("too few descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS_NEEDED), hard))
    try:
        with live_broker() as broker:
            asyncio.run(Crowd().live(broker.address))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
