"""Membership in a classic group: join, sync, heartbeat, leave; the leader computes the assignment.

Contains one member's side of the protocol.  Assignments belong in `assignors`, request encoding in
`classic_requests`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import Cluster, CoordinatorType
from barnabas.client.consumer.assignors.registry import assignors
from barnabas.client.consumer.assignors.simple import Assignor
from barnabas.client.consumer.membership.classic_requests import ClassicRequests, Generation, assignments_of
from barnabas.client.consumer.membership.membership import AssignmentHandler
from barnabas.client.consumer.offsets.commits import Committer
from barnabas.client.consumer.subscription import Mode, Subscription
from barnabas.client.errors.base import ClientError, RetriableError
from barnabas.client.group_protocol import Assignment, read_assignment
from barnabas.client.model import NO_EPOCH, TopicPartition
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.messages.join_group import JoinGroupResponse

logger = logging.getLogger(__name__)

_GROUP = CoordinatorType.GROUP
# The coordinator responds to a join when the rebalance ends; allow this much more for the response.
JOIN_GRACE_MS = 5_000
# Errors after which the member, or its generation, is no longer part of the group.
_MEMBERSHIP_LOST = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)


class ClassicMembership:
    """One member."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        subscription: Subscription,
        assignment_handler: AssignmentHandler,
        wake: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._subscription = subscription
        self._assignment_handler = assignment_handler
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
        self._reason = "the consumer is starting"
        self._is_lost = False
        self._error: KafkaError | None = None
        self._sent_subscription = -1
        # On the leader: the partition counts that the assignment was computed for.
        self._assigned_counts: dict[str, int] | None = None
        self._joining: asyncio.Task[Assignment] | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._polled_at = self._loop.time()
        cluster.on_update.append(self._metadata_changed)

    @property
    def _is_cooperative(self) -> bool:
        """Whether all assignors are cooperative: as in Apache Kafka, one that is not rules it out."""
        return all(assignor.is_cooperative for assignor in self._assignors)

    @property
    def needs_attention(self) -> bool:
        return (
            self._must_join
            or self._joining is not None
            or self._error is not None
            or self._sent_subscription != self._subscription.generation
        )

    def polled(self) -> None:
        self._polled_at = self._loop.time()

    def committer(self) -> Committer:
        return Committer(
            self.generation.id, self.generation.member_id, self._requests.group_instance_id, is_epoch=False
        )

    # ------------------------------------------------------------------------------------------ within a poll

    async def update(self, deadline: Deadline) -> None:
        self._raise_error()
        if self._sent_subscription != self._subscription.generation:
            self._request_join("the subscription changed")
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
                self._request_join("joining failed")
                raise
            await self._take(assignment)

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def _prepare(self) -> None:
        """Before joining, revoke what must not be read during the rebalance."""
        owned = set(self._subscription.partitions)
        if self._is_lost:
            self._is_lost = False
            await self._assignment_handler.lose(owned)
        elif not self._is_cooperative:
            await self._assignment_handler.revoke(owned)
        else:
            topics = self._subscription.topics
            await self._assignment_handler.revoke(
                partition for partition in owned if partition.topic not in topics
            )

    async def _take(self, assignment: Assignment) -> None:
        """Adopt the assignment: assign what is new, revoke what is no longer included."""
        mine = {partition for partition in assignment.partitions if self._is_wanted(partition)}
        owned = set(self._subscription.partitions)
        for assignor in self._assignors:
            if assignor.name == self.generation.protocol:
                assignor.assigned(assignment.partitions, self.generation.id)
        removed = owned - mine
        if removed:
            await self._assignment_handler.revoke(removed)
            # Other members receive revoked partitions in the next rebalance (KIP-429).
            self._request_join("partitions were revoked")
        await self._assignment_handler.assign(mine - owned)

    def _is_wanted(self, partition: TopicPartition) -> bool:
        """The subscription may have changed during the rebalance."""
        return partition.topic in self._subscription.topics

    def _request_join(self, reason: str) -> None:
        self._must_join = True
        self._reason = reason
        self._wake()

    # ------------------------------------------------------------------------------------------------ joining

    async def _join(self) -> Assignment:
        """Join until the group accepts the member; raises errors that a retry cannot fix."""
        failures = 0
        while True:
            try:
                return await self._join_once()
            except RetriableError as error:
                self._cluster.coordinator_failed(self._group_id, _GROUP, error)
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
        self._sent_subscription = self._subscription.generation
        owned = sorted(self._subscription.partitions) if self._is_cooperative else []
        request = self._requests.join(self.generation, self._subscription.topics, owned, self._reason)
        limit_ms = self._requests.rebalance_timeout_ms + JOIN_GRACE_MS
        joined = await connection.send(request, JoinGroupResponse, timeout_ms=limit_ms)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=joined.member_id)
        self._requests.check_joined(joined)
        self.generation = Generation(joined.generation_id, joined.member_id, joined.protocol_name or "")
        self._assigned_counts = None
        plan: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            plan = await self._compute_assignment(joined)
        response = await self._requests.sync(connection, self.generation, plan)
        self._start_heartbeats()
        return read_assignment(response) if response else Assignment(())

    async def _compute_assignment(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        members = self._requests.members(joined)
        topics = {topic for member in members.values() for topic in member.topics}
        if self._cluster.wanted is not None:
            self._cluster.wanted |= topics
        known = self._cluster.metadata.topics
        if not topics <= known.keys() or self._cluster.is_stale:
            await self._cluster.update()
        counts = self._counts(topics)
        assignor = next(candidate for candidate in self._assignors if candidate.name == joined.protocol_name)
        plan = assignor.assign(counts, members)
        self._assigned_counts = {topic: counts.get(topic, 0) for topic in topics}
        return assignments_of(plan)

    def _counts(self, topics: set[str]) -> dict[str, int]:
        known = self._cluster.metadata.topics
        return {
            topic: len(known[topic].partitions)
            for topic in topics
            if topic in known and known[topic].partitions
        }

    def _metadata_changed(self) -> None:
        """Called after a metadata update: topics may have been created, deleted or extended."""
        subscription = self._subscription
        if subscription.mode is Mode.PATTERN:
            matching = matching_topics(self._cluster, subscription, self._requests.excludes_internal)
            if matching != subscription.topics:
                subscription.change_topics(matching)
                self._wake()
        planned = self._assigned_counts
        if planned is not None and not self._must_join:
            counts = self._counts(set(planned))
            if any(counts.get(topic, 0) != count for topic, count in planned.items()):
                self._assigned_counts = None
                self._request_join("partition counts of the group's topics changed")

    # --------------------------------------------------------------------------------------------- heartbeats

    def _start_heartbeats(self) -> None:
        if self._heartbeat_task is None or self._heartbeat_task.done():
            self._heartbeat_task = asyncio.ensure_future(self._heartbeat_loop())

    async def _heartbeat_loop(self) -> None:
        answered_at = self._loop.time()
        while True:
            await asyncio.sleep(self._heartbeat_s)
            if self.generation.id == NO_EPOCH or self._joining is not None:
                answered_at = self._loop.time()
                continue
            if self._loop.time() - self._polled_at > self._max_poll_s:
                await self._leave_for_poll_timeout()
                continue
            try:
                await self._send_heartbeat()
                answered_at = self._loop.time()
            except KafkaError as error:
                self._handle_heartbeat_error(error)
                if self._loop.time() - answered_at > self._session_s:
                    self._cluster.forget_coordinator(self._group_id, _GROUP)

    async def _send_heartbeat(self) -> None:
        generation = self.generation
        connection = await self._cluster.coordinator(self._group_id, _GROUP)
        code = await self._requests.heartbeat(connection, generation)
        if code and generation == self.generation:
            raise self._requests.error(code)

    def _handle_heartbeat_error(self, error: KafkaError) -> None:
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._request_join("the group is rebalancing")
        elif error.code in _MEMBERSHIP_LOST:
            self._reset_membership("the group has removed this member")
            if error.code == ErrorCode.FENCED_INSTANCE_ID:
                self._error = error
        elif isinstance(error, RetriableError):
            self._cluster.coordinator_failed(self._group_id, _GROUP, error)
        else:
            self._error = error
            self._wake()

    def _reset_membership(self, reason: str) -> None:
        self.generation = Generation()
        self._is_lost = True
        self._request_join(reason)

    async def _leave_for_poll_timeout(self) -> None:
        """Leave the group because the user does not poll, so that others can take the partitions."""
        logger.warning(
            "no poll within max.poll.interval.ms (%.0f ms): leaving the group %s; poll more often, or return "
            "fewer records at a time (max.poll.records)",
            self._max_poll_s * 1000,
            self._group_id,
        )
        generation = self.generation
        self._reset_membership("the consumer polled again")
        await self._send_leave(generation, "the consumer did not poll in time")

    # ------------------------------------------------------------------------------------------------ leaving

    async def leave(self, deadline: Deadline) -> None:
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
            self._joining = None
            await self._bounded(deadline, self._disconnect())
        generation, self.generation = self.generation, Generation()
        self._must_join = True
        self._is_lost = False
        self._assigned_counts = None
        if generation.member_id and self._requests.group_instance_id is None and self._leaves_on_close:
            await self._bounded(deadline, self._send_leave(generation, "the consumer is being closed"))

    async def _disconnect(self) -> None:
        """Close the connection: brokers respond in order, so a LeaveGroup would wait behind the pending
        join."""
        with contextlib.suppress(KafkaError):
            connection = await self._cluster.coordinator(self._group_id, _GROUP)
            connection.close()
            while not connection.is_closed:
                # Its transport reports that in one of the next iterations of the loop.
                await asyncio.sleep(0)

    async def _bounded(self, deadline: Deadline, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(min(deadline.left_s, self._session_s)):
                await work
        except TimeoutError:
            logger.info("LeaveGroup was not sent to the group %s in time", self._group_id)

    async def _send_leave(self, generation: Generation, reason: str) -> None:
        try:
            connection: BrokerConnection = await self._cluster.coordinator(self._group_id, _GROUP)
            await self._requests.leave(connection, generation, reason)
        except KafkaError as error:
            logger.info("leaving the group %s failed: %s", self._group_id, error)

    async def close(self) -> None:
        if self._metadata_changed in self._cluster.on_update:
            self._cluster.on_update.remove(self._metadata_changed)
        tasks = [task for task in (self._heartbeat_task, self._joining) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def matching_topics(cluster: Cluster, subscription: Subscription, exclude_internal: bool) -> frozenset[str]:
    """Return the topics that match the subscribed pattern."""
    assert subscription.pattern is not None
    return frozenset(
        name
        for name, topic in cluster.metadata.topics.items()
        if subscription.pattern.fullmatch(name) and not (exclude_internal and topic.is_internal)
    )
