"""A classic consumer in the simulated world: it joins, assigns, commits and leaves; not a scenario itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.coordinator.group.caller import Caller
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.record_frame import read_versioned, write_versioned
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.testing.simulation.coordinators.group_book import partitions_of
from barnabas.testing.simulation.coordinators.members import (
    BACKOFF_NS,
    HEARTBEAT_NS,
    REBALANCE_MS,
    SESSION_MS,
    Client,
    Scene,
)

JOIN_VERSION = 9
# A client waits for the other members as long as they may take, and slightly longer.
JOIN_TIMEOUT_NS = (REBALANCE_MS + 1_000) * NS_PER_MS
NO_GENERATION = -1
# After these errors a member rejoins without its id.
_FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class ClassicConsumer(Client):
    """One member.  `owned` is what it believes to own, in `generation`."""

    def __init__(
        self, scene: Scene, group_id: str, name: str, topics: Sequence[str], instance_id: str | None
    ) -> None:
        super().__init__(scene, group_id, name)
        self.topics = list(topics)
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = NO_GENERATION
        self.owned: frozenset[tuple[str, int]] = frozenset()
        self.is_stable = False
        # Requests and timers of an earlier attempt to join are ignored.
        self._attempt = 0
        self._seen: list[int] = []
        self.after(scene.random.integer(0, 500 * NS_PER_MS), self.join)

    # Joining

    def join(self) -> None:
        self._attempt += 1
        self.is_stable = False
        self._seen = self._look()
        subscription = ConsumerProtocolSubscription(topics=self.topics)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=write_versioned(subscription, 1))],
        )
        caller = Caller(self.name, "/127.0.0.1", JOIN_VERSION)
        self.call(
            request,
            lambda machine, context: machine.classic.join(request, caller, context),
            partial(self._joined, self._attempt),
            timeout_ns=JOIN_TIMEOUT_NS,
        )

    def _joined(self, attempt: int, answer: JoinGroupResponse | KafkaError | None) -> None:
        if attempt != self._attempt:
            return
        code = _code(answer)
        if isinstance(answer, JoinGroupResponse) and code is ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            if answer.skip_assignment:
                self._seen = []  # the assignment was made by an earlier leader, which may have seen fewer
            self._sync(answer)
        elif isinstance(answer, JoinGroupResponse) and code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        else:
            self._rejoin(code)

    def _sync(self, joined: JoinGroupResponse) -> None:
        is_leader = joined.leader == self.member_id and not joined.skip_assignment
        if is_leader:
            # What it assigns: a topic that was there may be gone, and there again at its next heartbeat.
            self._seen = self._look()
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=self._assign(joined.members) if is_leader else [],
        )
        generation, member_id = self.generation, self.member_id

        def check(response: SyncGroupResponse, asked_at: int) -> None:
            if not response.error_code:
                owned = partitions_of(response.assignment)
                who = self.instance_id or member_id
                self.scene.book.check_assigned(self.group_id, generation, member_id, who, owned)

        self.call(
            request,
            lambda machine, context: machine.classic.sync(request, context),
            partial(self._synced, self._attempt),
            check,
            timeout_ns=JOIN_TIMEOUT_NS,
        )

    def _assign(self, members: list[JoinGroupResponse.Member]) -> list[SyncGroupRequest.Assignment]:
        """Distribute the partitions of each topic over its subscribers."""
        dealt: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in members}
        subscribers: dict[str, list[str]] = {}
        for member in members:
            subscription, _ = read_versioned(ConsumerProtocolSubscription, member.metadata)
            for topic in subscription.topics:
                subscribers.setdefault(topic, []).append(member.member_id)
        for topic, member_ids in subscribers.items():
            for partition in self.scene.partitions_of(topic):
                member_id = member_ids[partition % len(member_ids)]
                dealt[member_id].setdefault(topic, []).append(partition)
        return [
            SyncGroupRequest.Assignment(member_id=member_id, assignment=_assignment(topics))
            for member_id, topics in dealt.items()
        ]

    def _synced(self, attempt: int, answer: SyncGroupResponse | KafkaError | None) -> None:
        if attempt != self._attempt:
            return
        code = _code(answer)
        if not isinstance(answer, SyncGroupResponse) or code is not ErrorCode.NONE:
            self._rejoin(code)
            return
        assigned = partitions_of(answer.assignment)
        self.owned = frozenset((str(topic), partition) for topic, partition in assigned)
        self.is_stable = True
        self.after(HEARTBEAT_NS, partial(self._beat, attempt))

    def _rejoin(self, code: ErrorCode | None) -> None:
        self._attempt += 1
        self.is_stable = False
        if code in _FORGOTTEN:
            self.member_id, self.generation, self.owned = "", NO_GENERATION, frozenset()
        self.after(self.scene.random.integer(1, 2 * BACKOFF_NS), self.join)

    # Heartbeats and work

    def _beat(self, attempt: int) -> None:
        if attempt != self._attempt:
            return
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.call(
            request,
            lambda machine, context: machine.classic.heartbeat(request, context),
            partial(self._beaten, attempt),
        )

    def _beaten(self, attempt: int, answer: HeartbeatResponse | KafkaError | None) -> None:
        if attempt != self._attempt:
            return
        code = _code(answer)
        if code is ErrorCode.NONE and self._sees_new_partitions():
            self._rejoin(ErrorCode.REBALANCE_IN_PROGRESS)
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, *_FORGOTTEN):
            self._rejoin(code)
        else:
            self.after(HEARTBEAT_NS, partial(self._beat, attempt))

    def _sees_new_partitions(self) -> bool:
        """Consumers watch their topics, and trigger a rebalance when these have grown."""
        return self._seen != self._look()

    def _look(self) -> list[int]:
        return [len(self.scene.partitions_of(topic)) for topic in self.topics]

    def work(self) -> None:
        """Commit offsets of the partitions that it believes to own."""
        if self.is_stable and self.owned:
            self.commit(
                sorted(self.owned),
                self.member_id,
                self.generation,
                self._committed,
                instance_id=self.instance_id,
            )

    def _committed(self, code: ErrorCode | None) -> None:
        if code in _FORGOTTEN or code is ErrorCode.ILLEGAL_GENERATION:
            self._rejoin(code)

    def leave(self) -> None:
        """Leave the group and stop."""
        self.scene.world.agenda.note(f"{self!r} leaves")
        member = LeaveGroupRequest.MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id, reason="the test wants it so"
        )
        request = LeaveGroupRequest(group_id=self.group_id, members=[member])
        self.call(request, lambda machine, context: machine.classic.leave(request, context), lambda _: None)
        self.is_alive = False


def _code(answer: object) -> ErrorCode | None:
    """None: there was no response."""
    if isinstance(answer, KafkaError):
        return answer.code
    code = getattr(answer, "error_code", None)
    return None if code is None else ErrorCode(code)


def _assignment(topics: dict[str, list[int]]) -> bytes:
    rows = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in topics.items()
    ]
    return write_versioned(ConsumerProtocolAssignment(assigned_partitions=rows), 1)
