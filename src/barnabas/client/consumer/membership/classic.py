"""Membership in a classic group: join, sync, heartbeat, leave; the leader makes the plan.

What lives here: one member's side of the protocol.  What may not: the plan itself (assignors), and its
requests as bytes (classic_requests).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import COORDINATOR_MOVED, Cluster, CoordinatorType
from barnabas.client.consumer.assignors.registry import assignors
from barnabas.client.consumer.assignors.simple import Assignor
from barnabas.client.consumer.membership.classic_requests import ClassicRequests, Generation, assignments_of
from barnabas.client.consumer.membership.membership import Handover
from barnabas.client.consumer.offsets.commits import Committer
from barnabas.client.consumer.subscription import Mode, Subscription
from barnabas.client.errors.kinds import ClientError, RetriableError
from barnabas.client.group_protocol import Assignment, read_assignment
from barnabas.client.model import NO_EPOCH, TopicPartition
from barnabas.client.waiting import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.messages.join_group import JoinGroupResponse

logger = logging.getLogger(__name__)

_GROUP = CoordinatorType.GROUP
# The coordinator answers a join when the rebalance is over; so much longer do we wait for its answer.
JOIN_GRACE_MS = 5_000
# What says that the member, or its generation, is not the group's any more.
_DROPPED = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)


class ClassicMembership:
    """One member."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        subscription: Subscription,
        handover: Handover,
        wake: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._subscription = subscription
        self._handover = handover
        self._wake = wake
        self._group_id: str = settings["group.id"]
        self._assignors: list[Assignor] = assignors(settings["partition.assignment.strategy"])
        self._requests = ClassicRequests(settings, self._assignors)
        self._heartbeat_s: float = settings["heartbeat.interval.ms"] / 1000
        self._session_s: float = settings["session.timeout.ms"] / 1000
        self._max_poll_s: float = settings["max.poll.interval.ms"] / 1000
        self._leaves_on_close: bool = settings["internal.leave.group.on.close"]
        self.generation = Generation()
        self._must_join = True
        self._reason = "the consumer starts"
        self._is_lost = False
        self._error: KafkaError | None = None
        self._told_subscription = -1
        # For the leader: how many partitions the plan was made for.
        self._planned: dict[str, int] | None = None
        self._joining: asyncio.Task[Assignment] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._polled_at = self._loop.time()
        cluster.on_update.append(self._metadata_changed)

    @property
    def _is_cooperative(self) -> bool:
        """What all assignors can do: as in Apache Kafka, one that cannot rules it out."""
        return all(assignor.is_cooperative for assignor in self._assignors)

    @property
    def needs_attention(self) -> bool:
        return (
            self._must_join
            or self._joining is not None
            or self._error is not None
            or self._told_subscription != self._subscription.generation
        )

    def polled(self) -> None:
        self._polled_at = self._loop.time()

    def committer(self) -> Committer:
        return Committer(
            self.generation.id, self.generation.member_id, self._requests.group_instance_id, is_epoch=False
        )

    # ---------------------------------------------------------------------------------------- within a poll

    async def update(self, deadline: Deadline) -> None:
        self._raise_error()
        if self._told_subscription != self._subscription.generation:
            self._ask_to_join("the subscription has changed")
        while self._must_join or self._joining is not None:
            if self._joining is None:
                await self._prepare()
                self._must_join = False
                self._joining = asyncio.ensure_future(self._join())
            done, _ = await asyncio.wait([self._joining], timeout=deadline.left_s)
            if not done:
                return
            joined, self._joining = self._joining, None
            try:
                assignment = joined.result()
            except KafkaError:
                self._ask_to_join("joining failed")
                raise
            await self._take(assignment)

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def _prepare(self) -> None:
        """Before joining: what must not be read on is given back."""
        owned = set(self._subscription.partitions)
        if self._is_lost:
            self._is_lost = False
            await self._handover.lose(owned)
        elif not self._is_cooperative:
            await self._handover.revoke(owned)
        else:
            topics = self._subscription.topics
            await self._handover.revoke(one for one in owned if one.topic not in topics)

    async def _take(self, assignment: Assignment) -> None:
        """Take what the plan gives, and give back what it takes away."""
        mine = {one for one in assignment.partitions if self._is_wanted(one)}
        owned = set(self._subscription.partitions)
        for assignor in self._assignors:
            if assignor.name == self.generation.protocol:
                assignor.assigned(assignment.partitions, self.generation.id)
        removed = owned - mine
        if removed:
            await self._handover.revoke(removed)
            # Others get in the next rebalance what was given back in this one (KIP-429).
            self._ask_to_join("partitions were given back")
        await self._handover.assign(mine - owned)

    def _is_wanted(self, one: TopicPartition) -> bool:
        """The subscription may have changed while the group made its plan."""
        return one.topic in self._subscription.topics

    def _ask_to_join(self, reason: str) -> None:
        self._must_join = True
        self._reason = reason
        self._wake()

    # -------------------------------------------------------------------------------------------- the joining

    async def _join(self) -> Assignment:
        """Until the group has taken us in; raises what no further attempt would change."""
        failures = 0
        while True:
            try:
                return await self._join_once()
            except RetriableError as error:
                if error.code in COORDINATOR_MOVED:
                    self._cluster.forget_coordinator(self._group_id, _GROUP)
            except ClientError as error:
                if error.code == ErrorCode.MEMBER_ID_REQUIRED:
                    continue
                if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                    self.generation = Generation()
                elif error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                    raise
            await asyncio.sleep(self._cluster.retries.pause_s(failures))
            failures += 1

    async def _join_once(self) -> Assignment:
        connection = await self._cluster.coordinator(self._group_id, _GROUP)
        self._told_subscription = self._subscription.generation
        owned = sorted(self._subscription.partitions) if self._is_cooperative else []
        request = self._requests.join(self.generation, self._subscription.topics, owned, self._reason)
        limit_ms = self._requests.rebalance_timeout_ms + JOIN_GRACE_MS
        joined = await connection.ask(request, JoinGroupResponse, timeout_ms=limit_ms)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=joined.member_id)
        self._requests.check_joined(joined)
        self.generation = Generation(joined.generation_id, joined.member_id, joined.protocol_name or "")
        self._planned = None
        plan: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            plan = await self._make_plan(joined)
        answer = await self._requests.sync(connection, self.generation, plan)
        self._start_beating()
        return read_assignment(answer) if answer else Assignment(())

    async def _make_plan(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        members = self._requests.members(joined)
        topics = {topic for member in members.values() for topic in member.topics}
        if self._cluster.wanted is not None:
            self._cluster.wanted |= topics
        known = self._cluster.metadata.topics
        if not topics <= known.keys() or self._cluster.is_stale:
            await self._cluster.update()
        counts = self._counts(topics)
        assignor = next(one for one in self._assignors if one.name == joined.protocol_name)
        plan = assignor.assign(counts, members)
        self._planned = {topic: counts.get(topic, 0) for topic in topics}
        return assignments_of(plan)

    def _counts(self, topics: set[str]) -> dict[str, int]:
        known = self._cluster.metadata.topics
        return {
            topic: len(known[topic].partitions)
            for topic in topics
            if topic in known and known[topic].partitions
        }

    def _metadata_changed(self) -> None:
        """Topics may have come, gone or grown."""
        subscription = self._subscription
        if subscription.mode is Mode.PATTERN:
            found = matching_topics(self._cluster, subscription, self._requests.excludes_internal)
            if found != subscription.topics:
                subscription.change_topics(found)
                self._wake()
        planned = self._planned
        if planned is not None and not self._must_join:
            counts = self._counts(set(planned))
            if any(counts.get(topic, 0) != count for topic, count in planned.items()):
                self._planned = None
                self._ask_to_join("partitions of the group's topics have changed")

    # ------------------------------------------------------------------------------------------ the heartbeat

    def _start_beating(self) -> None:
        if self._beating is None or self._beating.done():
            self._beating = asyncio.ensure_future(self._beat())

    async def _beat(self) -> None:
        answered_at = self._loop.time()
        while True:
            await asyncio.sleep(self._heartbeat_s)
            if self.generation.id == NO_EPOCH or self._joining is not None:
                answered_at = self._loop.time()
                continue
            if self._loop.time() - self._polled_at > self._max_poll_s:
                await self._leave_for_silence()
                continue
            try:
                await self._beat_once()
                answered_at = self._loop.time()
            except KafkaError as error:
                self._judge_beat(error)
                if self._loop.time() - answered_at > self._session_s:
                    self._cluster.forget_coordinator(self._group_id, _GROUP)

    async def _beat_once(self) -> None:
        generation = self.generation
        connection = await self._cluster.coordinator(self._group_id, _GROUP)
        code = await self._requests.heartbeat(connection, generation)
        if code and generation == self.generation:
            raise self._requests.error(code)

    def _judge_beat(self, error: KafkaError) -> None:
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._ask_to_join("the group is rebalancing")
        elif error.code in _DROPPED:
            self._drop_out("the group has dropped this member")
            if error.code == ErrorCode.FENCED_INSTANCE_ID:
                self._error = error
        elif error.code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(self._group_id, _GROUP)
        elif not isinstance(error, RetriableError):
            self._error = error
            self._wake()

    def _drop_out(self, reason: str) -> None:
        self.generation = Generation()
        self._is_lost = True
        self._ask_to_join(reason)

    async def _leave_for_silence(self) -> None:
        """The user does not poll: others shall have the partitions."""
        logger.warning(
            "no poll within max.poll.interval.ms (%.0f ms): leaving the group %s; poll more often, or take "
            "fewer records at a time (max.poll.records)",
            self._max_poll_s * 1000,
            self._group_id,
        )
        generation = self.generation
        self._drop_out("the consumer polls again")
        await self._send_leave(generation, "the consumer did not poll in time")

    # -------------------------------------------------------------------------------------------- the leaving

    async def leave(self, deadline: Deadline) -> None:
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
            self._joining = None
            await self._bounded(deadline, self._hang_up())
        generation, self.generation = self.generation, Generation()
        self._must_join = True
        self._is_lost = False
        self._planned = None
        if generation.member_id and self._requests.group_instance_id is None and self._leaves_on_close:
            await self._bounded(deadline, self._send_leave(generation, "the consumer is done"))

    async def _hang_up(self) -> None:
        """Brokers answer in order: behind a join that waits for others, nobody would hear that we leave."""
        with contextlib.suppress(KafkaError):
            connection = await self._cluster.coordinator(self._group_id, _GROUP)
            connection.close()
            while not connection.is_closed:
                # Its transport tells in one of the loop's next turns.
                await asyncio.sleep(0)

    async def _bounded(self, deadline: Deadline, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(min(deadline.left_s, self._session_s)):
                await work
        except TimeoutError:
            logger.info("the group %s was not told of our leaving in time", self._group_id)

    async def _send_leave(self, generation: Generation, reason: str) -> None:
        try:
            connection: BrokerConnection = await self._cluster.coordinator(self._group_id, _GROUP)
            await self._requests.leave(connection, generation, reason)
        except KafkaError as error:
            logger.info("the group %s was not told of our leaving: %s", self._group_id, error)

    async def close(self) -> None:
        if self._metadata_changed in self._cluster.on_update:
            self._cluster.on_update.remove(self._metadata_changed)
        tasks = [task for task in (self._beating, self._joining) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def matching_topics(cluster: Cluster, subscription: Subscription, exclude_internal: bool) -> frozenset[str]:
    """The topics that a pattern means now."""
    assert subscription.pattern is not None
    return frozenset(
        name
        for name, topic in cluster.metadata.topics.items()
        if subscription.pattern.fullmatch(name) and not (exclude_internal and topic.is_internal)
    )
