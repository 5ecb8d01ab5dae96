"""Membership in a group of the consumer protocol (KIP-848): the broker computes the assignment and
heartbeats carry it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.client.cluster import Cluster, CoordinatorType
from barnabas.client.consumer.membership.classic import matching_topics
from barnabas.client.consumer.membership.membership import AssignmentHandler
from barnabas.client.consumer.offsets.commits import Committer
from barnabas.client.consumer.subscription import Mode, Subscription
from barnabas.client.errors.base import RetriableError, check
from barnabas.client.model import TopicPartition
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.runtime.random import random_uuid

logger = logging.getLogger(__name__)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
# A static member that will return: it keeps its partitions until its session expires.
STATIC_LEAVING_EPOCH = -2
# Until the broker has sent its heartbeat interval.
FIRST_INTERVAL_S = 5.0

_GROUP = CoordinatorType.GROUP
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
Target = frozenset[tuple[Uuid, int]]


class ConsumerProtocolMembership:
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
        self._instance_id: str | None = settings["group.instance.id"]
        self._rack: str | None = settings["client.rack"] or None
        self._assignor: str | None = settings["group.remote.assignor"]
        self._max_poll_ms: int = settings["max.poll.interval.ms"]
        self._excludes_internal: bool = settings["exclude.internal.topics"]
        self._member_id = str(random_uuid(cluster.random))
        self._epoch = JOINING_EPOCH
        self._interval_s = FIRST_INTERVAL_S
        # The assignment from the broker, and the one that we last reported as owned.
        self._target: Target | None = None
        self._owned: Target = frozenset()
        self._sent_owned: Target | None = None
        self._sent_subscription = -1
        self._is_lost = False
        self._error: KafkaError | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._heartbeat_now = asyncio.Event()
        self._polled_at = self._loop.time()
        cluster.on_update.append(self._metadata_changed)

    @property
    def needs_attention(self) -> bool:
        return (
            self._error is not None
            or self._is_lost
            or self._heartbeat_task is None
            or (self._target is not None and self._target != self._owned)
            or self._sent_subscription != self._subscription.generation
        )

    def polled(self) -> None:
        self._polled_at = self._loop.time()

    def committer(self) -> Committer:
        return Committer(self._epoch, self._member_id, self._instance_id, is_epoch=True)

    # ------------------------------------------------------------------------------------------ within a poll

    async def update(self, deadline: Deadline) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            await self._stop_heartbeats()
            raise error
        if self._is_lost:
            self._is_lost = False
            self._owned, self._target = frozenset(), None
            await self._assignment_handler.lose(list(self._subscription.partitions))
        if self._heartbeat_task is None or self._heartbeat_task.done():
            self._heartbeat_task = asyncio.ensure_future(self._heartbeat_loop())
        if self._sent_subscription != self._subscription.generation:
            self._heartbeat_now.set()
        if self._target is not None and self._target != self._owned:
            await self._reconcile(self._target, deadline)

    async def _reconcile(self, target: Target, deadline: Deadline) -> None:
        """Move to the target assignment: revoke first, then assign, then report with a heartbeat."""
        wanted = await self._resolve_names(target, deadline)
        if wanted is None or self._target != target:
            return
        owned = set(self._subscription.partitions)
        await self._assignment_handler.revoke(owned - wanted)
        added = wanted - owned
        if added or not owned:
            await self._assignment_handler.assign(added)
        self._owned = target
        self._heartbeat_now.set()

    async def _resolve_names(self, target: Target, deadline: Deadline) -> set[TopicPartition] | None:
        """Return the partitions by name; None if some topic ids are not known yet."""
        for _ in range(2):
            names = self._cluster.metadata.names
            if all(topic_id in names for topic_id, _ in target):
                return {TopicPartition(names[topic_id], number) for topic_id, number in target}
            try:
                async with asyncio.timeout(deadline.left_s):
                    await self._cluster.update()
            except (RetriableError, TimeoutError):
                return None
        return None

    def _metadata_changed(self) -> None:
        subscription = self._subscription
        if subscription.mode is Mode.PATTERN:
            matching = matching_topics(self._cluster, subscription, self._excludes_internal)
            if matching != subscription.topics:
                subscription.change_topics(matching)
                self._wake()

    # --------------------------------------------------------------------------------------------- heartbeats

    async def _heartbeat_loop(self) -> None:
        failures = 0
        while self._error is None:
            if self._epoch >= 0 and self._loop.time() - self._polled_at > self._max_poll_ms / 1000:
                await self._leave_until_polled()
            self._heartbeat_now.clear()
            try:
                await self._send_heartbeat()
                failures = 0
                pause_s = self._interval_s
            except RetriableError as error:
                self._cluster.coordinator_failed(self._group_id, _GROUP, error)
                pause_s = self._cluster.retries.pause_s(failures)
                failures += 1
                self._sent_owned = None
            except KafkaError as error:
                self._handle_error(error)
                pause_s = 0.0
            if not self._heartbeat_now.is_set():
                try:
                    async with asyncio.timeout(pause_s):
                        await self._heartbeat_now.wait()
                except TimeoutError:
                    continue

    async def _send_heartbeat(self) -> None:
        connection = await self._cluster.coordinator(self._group_id, _GROUP)
        sent_subscription, owned = self._subscription.generation, self._owned
        request = self._request(owned)
        response = await connection.send(request, ConsumerGroupHeartbeatResponse)
        check(response.error_code, response.error_message)
        self._sent_subscription, self._sent_owned = sent_subscription, owned
        self._epoch = response.member_epoch
        if response.member_id:
            self._member_id = response.member_id
        if response.heartbeat_interval_ms > 0:
            self._interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )
            self._wake()
        if sent_subscription != self._subscription.generation:
            self._heartbeat_now.set()

    def _request(self, owned: Target) -> ConsumerGroupHeartbeatRequest:
        """Build a full heartbeat when joining or after an error, else one with only the changes."""
        subscription = self._subscription
        whole = self._epoch == JOINING_EPOCH or self._sent_owned is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        request.instance_id = self._instance_id
        if whole:
            request.rack_id = self._rack
            request.rebalance_timeout_ms = self._max_poll_ms
            request.server_assignor = self._assignor
        if whole or self._sent_subscription != subscription.generation:
            if subscription.mode is Mode.SERVER_PATTERN:
                request.subscribed_topic_regex = subscription.server_pattern
            else:
                request.subscribed_topic_names = sorted(subscription.topics)
        if whole or self._sent_owned != owned:
            request.topic_partitions = _owned_topics(owned)
        return request

    def _handle_error(self, error: KafkaError) -> None:
        if error.code in _FENCED:
            logger.info("the group %s has removed this member: joining again", self._group_id)
            self._reset_membership()
        else:
            self._error = error
        self._wake()

    def _reset_membership(self) -> None:
        self._epoch = JOINING_EPOCH
        self._is_lost = True
        self._owned, self._target, self._sent_owned = frozenset(), None, None

    async def _leave_until_polled(self) -> None:
        """Leave the group because the user does not poll; join again when it does."""
        logger.warning(
            "no poll within max.poll.interval.ms (%s ms): leaving the group %s; poll more often, or return "
            "fewer records at a time (max.poll.records)",
            self._max_poll_ms,
            self._group_id,
        )
        await self._send_leave()
        self._reset_membership()
        last_polled_at = self._polled_at
        while self._polled_at == last_polled_at:
            await asyncio.sleep(self._cluster.retries.pause_s(0))

    # ------------------------------------------------------------------------------------------------ leaving

    async def leave(self, deadline: Deadline) -> None:
        is_member = self._epoch > JOINING_EPOCH
        await self._stop_heartbeats()
        if is_member:
            try:
                async with asyncio.timeout(deadline.left_s):
                    await self._send_leave()
            except TimeoutError:
                logger.info("the leave heartbeat was not sent to the group %s in time", self._group_id)
        self._epoch = JOINING_EPOCH
        self._owned, self._target, self._sent_owned = frozenset(), None, None
        self._is_lost = False

    async def _send_leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=LEAVING_EPOCH if self._instance_id is None else STATIC_LEAVING_EPOCH,
        )
        request.instance_id = self._instance_id
        try:
            connection = await self._cluster.coordinator(self._group_id, _GROUP)
            await connection.send(request, ConsumerGroupHeartbeatResponse)
        except KafkaError as error:
            logger.info("leaving the group %s failed: %s", self._group_id, error)

    async def _stop_heartbeats(self) -> None:
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
            await asyncio.gather(self._heartbeat_task, return_exceptions=True)
            self._heartbeat_task = None

    async def close(self) -> None:
        if self._metadata_changed in self._cluster.on_update:
            self._cluster.on_update.remove(self._metadata_changed)
        await self._stop_heartbeats()


def _owned_topics(owned: Iterable[tuple[Uuid, int]]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(owned):
        by_topic.setdefault(topic_id, []).append(number)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in by_topic.items()
    ]
