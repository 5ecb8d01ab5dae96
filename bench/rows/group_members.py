"""A thousand members of a hundred classic groups join, one member of each leaves, and the groups settle.

A group has settled when all its members have their assignment of the same generation, which its
leader saw with that many members.
"""

from __future__ import annotations

import itertools
import selectors
import struct
import time
from collections.abc import Mapping
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.schema import Message
from bench.apache import APACHE
from bench.paced import settle
from bench.registry import Contender, Workbench, row
from bench.servers import Server
from bench.shared import shared_servers
from tools.raw_broker import RawConnection

GROUPS = 100
MEMBERS = 10
PATIENCE_S = 120
HEARTBEAT_S = 0.1
SESSION_MS = 30_000
VERSIONS = {JoinGroupRequest: 9, SyncGroupRequest: 5, HeartbeatRequest: 4, LeaveGroupRequest: 5}
FIND_VERSION = 4
# Errors of a broker that is about to lead a partition of the new internal topic.
NOT_YET = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
METADATA = bytes(20)
ASSIGNMENT = bytes(30)
_SIZE = struct.Struct(">i")
_runs = itertools.count()


class Group:
    """The generation that its leader saw, its number of members, and those that have synced."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.generation = -1
        self.seen = 0
        self.synced = 0

    def led(self, generation: int, members: int) -> None:
        self.generation, self.seen, self.synced = generation, members, 0

    def has_settled(self, members: int) -> bool:
        return self.seen == members and self.synced == members


class Member:
    """A member with its own connection; one request in flight."""

    def __init__(self, server: Server, group: Group) -> None:
        self.group = group
        self.connection = RawConnection(server.address, PATIENCE_S)
        self.is_stable = False
        self.has_left = False
        self._id = ""
        self._generation = -1
        self._asked: Message | None = None
        self._received = bytearray()

    @property
    def is_idle(self) -> bool:
        return self._asked is None and not self.has_left

    def _ask(self, request: Message) -> None:
        self._asked = request
        self.connection.send(write_request(request, VERSIONS[type(request)], 1, "bench"))

    def join(self) -> None:
        self.is_stable = False
        protocol = JoinGroupRequest.Protocol(name="range", metadata=METADATA)
        self._ask(
            JoinGroupRequest(
                group_id=self.group.name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self._id,
                protocol_type="consumer",
                protocols=[protocol],
            )
        )

    def heartbeat(self) -> None:
        self._ask(
            HeartbeatRequest(group_id=self.group.name, generation_id=self._generation, member_id=self._id)
        )

    def leave_soon(self) -> None:
        """Leaves at once, or after the response to the current heartbeat."""
        self.has_left = True
        if self._asked is None:
            self._leave()

    def _leave(self) -> None:
        identity = LeaveGroupRequest.MemberIdentity(member_id=self._id)
        self._ask(LeaveGroupRequest(group_id=self.group.name, members=[identity]))

    def receive(self) -> None:
        received = self._received
        received += self.connection.socket.recv(1 << 16)
        if len(received) < _SIZE.size or len(received) < _SIZE.size + _SIZE.unpack_from(received)[0]:
            return
        frame = bytes(received[_SIZE.size :])
        received.clear()
        request, self._asked = self._asked, None
        assert request is not None
        assert request.schema.key is not None
        _, response = read_response(frame, api(request.schema.key), VERSIONS[type(request)])
        if self.has_left and isinstance(response, HeartbeatResponse):
            self._leave()
        else:
            self._take(response)

    def _take(self, response: Message) -> None:
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response)
        elif isinstance(response, HeartbeatResponse):
            if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.join()
            else:
                assert not response.error_code, ErrorCode(response.error_code).name
        else:
            assert isinstance(response, LeaveGroupResponse)
            assert not response.error_code, ErrorCode(response.error_code).name

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = response.member_id
            self.join()
            return
        if response.error_code in NOT_YET:
            self.join()
            return
        assert not response.error_code, ErrorCode(response.error_code).name
        self._id, self._generation = response.member_id, response.generation_id
        assignments = []
        if response.leader == self._id:
            self.group.led(response.generation_id, len(response.members))
            assignment_type = SyncGroupRequest.Assignment
            assignments = [
                assignment_type(member_id=member.member_id, assignment=ASSIGNMENT)
                for member in response.members
            ]
        self._ask(
            SyncGroupRequest(
                group_id=self.group.name,
                generation_id=self._generation,
                member_id=self._id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            )
        )

    def _synced(self, response: SyncGroupResponse) -> None:
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        assert not response.error_code, ErrorCode(response.error_code).name
        assert bytes(response.assignment) == ASSIGNMENT, "an assignment that was not given"
        self.is_stable = True
        if self._generation == self.group.generation:
            self.group.synced += 1


class Crowd:
    """All members, served by one loop."""

    def __init__(self, server: Server) -> None:
        run = next(_runs)
        self.groups = [Group(f"bench-{run}-{number}") for number in range(GROUPS)]
        self.members = [Member(server, group) for group in self.groups for _ in range(MEMBERS)]
        self._selector = selectors.DefaultSelector()
        for member in self.members:
            self._selector.register(member.connection.socket, selectors.EVENT_READ, member)

    def until_settled(self, members: int) -> None:
        until = time.monotonic() + PATIENCE_S
        beat = time.monotonic() + HEARTBEAT_S
        while not all(group.has_settled(members) for group in self.groups):
            now = time.monotonic()
            assert now < until, "the groups do not settle"
            if now >= beat:
                beat = now + HEARTBEAT_S
                for member in self.members:
                    if member.is_stable and member.is_idle:
                        member.heartbeat()
            for key, _ in self._selector.select(max(beat - now, 0)):
                key.data.receive()

    def close(self) -> None:
        self._selector.close()
        for member in self.members:
            member.connection.socket.close()


def run(server: Server) -> dict[str, float]:
    settle()
    await_coordinator(server)
    crowd = Crowd(server)
    try:
        cpu_s = server.cpu_seconds
        start = time.perf_counter()
        for member in crowd.members:
            member.join()
        crowd.until_settled(MEMBERS)
        for group in crowd.groups:
            next(member for member in crowd.members if member.group is group).leave_soon()
        crowd.until_settled(MEMBERS - 1)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "cpu": (server.cpu_seconds - cpu_s) * 1000}
    finally:
        crowd.close()


def await_coordinator(server: Server) -> None:
    """The first request creates the internal topic."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["bench"])
    until = time.monotonic() + PATIENCE_S
    with RawConnection(server.address, PATIENCE_S) as connection:
        while connection.ask(request, FIND_VERSION, FindCoordinatorResponse).coordinators[0].error_code:
            assert time.monotonic() < until, "no coordinator of groups"
            time.sleep(0.05)


ROW = partial(row, higher_is_better=False, against=APACHE, goal=1)


@ROW(
    "group-members",
    "1,000 members in 100 groups join, lose a tenth, and settle",
    unit="s",
    floor=1 / 0.7,
    value="seconds",
)
@ROW(
    "group-members-cpu",
    "1,000 members in 100 groups join, lose a tenth, and settle: CPU of the broker",
    unit="ms",
    floor=1 / 0.7,
    value="cpu",
)
def group_members(bench: Workbench) -> Mapping[str, Contender]:
    servers = shared_servers(bench.context)
    return {name: partial(run, server) for name, server in servers.items()}
