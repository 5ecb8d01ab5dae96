"""Membership in a group of the newer protocol (KIP-848): the broker makes the plan, heartbeats carry it.

What lives here: one member's side of it.  What may not: plans; there are none on this side.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.client.cluster import COORDINATOR_MOVED, Cluster, CoordinatorType
from barnabas.client.consumer.membership.classic import matching_topics
from barnabas.client.consumer.membership.membership import Handover
from barnabas.client.consumer.offsets.commits import Committer
from barnabas.client.consumer.subscription import Mode, Subscription
from barnabas.client.errors.kinds import RetriableError, check
from barnabas.client.model import TopicPartition
from barnabas.client.waiting import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.runtime.random import random_uuid

logger = logging.getLogger(__name__)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
# A static member that comes back: its partitions stay its own until its session ends.
RESTING_EPOCH = -2
# Before the broker has said how often it wants to hear from us.
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
        handover: Handover,
        wake: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._subscription = subscription
        self._handover = handover
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
        # What the broker gives us, and what we have told it that we own.
        self._target: Target | None = None
        self._owned: Target = frozenset()
        self._told_owned: Target | None = None
        self._told_subscription = -1
        self._is_lost = False
        self._error: KafkaError | None = None
        self._beating: asyncio.Task[None] | None = None
        self._beat_now = asyncio.Event()
        self._polled_at = self._loop.time()
        cluster.on_update.append(self._metadata_changed)

    @property
    def needs_attention(self) -> bool:
        return (
            self._error is not None
            or self._is_lost
            or self._beating is None
            or (self._target is not None and self._target != self._owned)
            or self._told_subscription != self._subscription.generation
        )

    def polled(self) -> None:
        self._polled_at = self._loop.time()

    def committer(self) -> Committer:
        return Committer(self._epoch, self._member_id, self._instance_id, is_epoch=True)

    # ---------------------------------------------------------------------------------------- within a poll

    async def update(self, deadline: Deadline) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            await self._stop_beating()
            raise error
        if self._is_lost:
            self._is_lost = False
            self._owned, self._target = frozenset(), None
            await self._handover.lose(list(self._subscription.partitions))
        if self._beating is None or self._beating.done():
            self._beating = asyncio.ensure_future(self._beat())
        if self._told_subscription != self._subscription.generation:
            self._beat_now.set()
        if self._target is not None and self._target != self._owned:
            await self._reconcile(self._target, deadline)

    async def _reconcile(self, target: Target, deadline: Deadline) -> None:
        """Become what the broker wants: give back first, then take, then say so."""
        wanted = await self._named(target, deadline)
        if wanted is None or self._target != target:
            return
        owned = set(self._subscription.partitions)
        await self._handover.revoke(owned - wanted)
        added = wanted - owned
        if added or not owned:
            await self._handover.assign(added)
        self._owned = target
        self._beat_now.set()

    async def _named(self, target: Target, deadline: Deadline) -> set[TopicPartition] | None:
        """The partitions by name; None if some topics are not known by their ids yet."""
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
            found = matching_topics(self._cluster, subscription, self._excludes_internal)
            if found != subscription.topics:
                subscription.change_topics(found)
                self._wake()

    # ------------------------------------------------------------------------------------------ the heartbeat

    async def _beat(self) -> None:
        failures = 0
        while self._error is None:
            if self._epoch >= 0 and self._loop.time() - self._polled_at > self._max_poll_ms / 1000:
                await self._rest_in_silence()
            self._beat_now.clear()
            try:
                await self._beat_once()
                failures = 0
                pause_s = self._interval_s
            except RetriableError as error:
                if error.code in COORDINATOR_MOVED:
                    self._cluster.forget_coordinator(self._group_id, _GROUP)
                pause_s = self._cluster.retries.pause_s(failures)
                failures += 1
                self._told_owned = None
            except KafkaError as error:
                self._judge(error)
                pause_s = 0.0
            if not self._beat_now.is_set():
                try:
                    async with asyncio.timeout(pause_s):
                        await self._beat_now.wait()
                except TimeoutError:
                    continue

    async def _beat_once(self) -> None:
        link = await self._cluster.coordinator(self._group_id, _GROUP)
        told_subscription, owned = self._subscription.generation, self._owned
        request = self._request(owned)
        answer = await link.ask(request, ConsumerGroupHeartbeatResponse)
        check(answer.error_code, answer.error_message)
        self._told_subscription, self._told_owned = told_subscription, owned
        self._epoch = answer.member_epoch
        if answer.member_id:
            self._member_id = answer.member_id
        if answer.heartbeat_interval_ms > 0:
            self._interval_s = answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            )
            self._wake()
        if told_subscription != self._subscription.generation:
            self._beat_now.set()

    def _request(self, owned: Target) -> ConsumerGroupHeartbeatRequest:
        """All of it when joining or after trouble, else only what has changed."""
        subscription = self._subscription
        whole = self._epoch == JOINING_EPOCH or self._told_owned is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        request.instance_id = self._instance_id
        if whole:
            request.rack_id = self._rack
            request.rebalance_timeout_ms = self._max_poll_ms
            request.server_assignor = self._assignor
        if whole or self._told_subscription != subscription.generation:
            if subscription.mode is Mode.SERVER_PATTERN:
                request.subscribed_topic_regex = subscription.server_pattern
            else:
                request.subscribed_topic_names = sorted(subscription.topics)
        if whole or self._told_owned != owned:
            request.topic_partitions = _owned_topics(owned)
        return request

    def _judge(self, error: KafkaError) -> None:
        if error.code in _FENCED:
            logger.info("the group %s has dropped this member: joining again", self._group_id)
            self._drop_out()
        else:
            self._error = error
        self._wake()

    def _drop_out(self) -> None:
        self._epoch = JOINING_EPOCH
        self._is_lost = True
        self._owned, self._target, self._told_owned = frozenset(), None, None

    async def _rest_in_silence(self) -> None:
        """The user does not poll: give the partitions to others, and join again when it polls."""
        logger.warning(
            "no poll within max.poll.interval.ms (%s ms): leaving the group %s; poll more often, or process "
            "fewer records at a time (max.poll.records)",
            self._max_poll_ms,
            self._group_id,
        )
        await self._send_leave()
        self._drop_out()
        silent_since = self._polled_at
        while self._polled_at == silent_since:
            await asyncio.sleep(self._cluster.retries.pause_s(0))

    # -------------------------------------------------------------------------------------------- the leaving

    async def leave(self, deadline: Deadline) -> None:
        is_member = self._epoch > JOINING_EPOCH
        await self._stop_beating()
        if is_member:
            try:
                async with asyncio.timeout(deadline.left_s):
                    await self._send_leave()
            except TimeoutError:
                logger.info("the group %s was not told of our leaving in time", self._group_id)
        self._epoch = JOINING_EPOCH
        self._owned, self._target, self._told_owned = frozenset(), None, None
        self._is_lost = False

    async def _send_leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=LEAVING_EPOCH if self._instance_id is None else RESTING_EPOCH,
        )
        request.instance_id = self._instance_id
        try:
            link = await self._cluster.coordinator(self._group_id, _GROUP)
            await link.ask(request, ConsumerGroupHeartbeatResponse)
        except KafkaError as error:
            logger.info("the group %s was not told of our leaving: %s", self._group_id, error)

    async def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
            self._beating = None

    async def close(self) -> None:
        if self._metadata_changed in self._cluster.on_update:
            self._cluster.on_update.remove(self._metadata_changed)
        await self._stop_beating()


def _owned_topics(owned: Iterable[tuple[Uuid, int]]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(owned):
        by_topic.setdefault(topic_id, []).append(number)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in by_topic.items()
    ]
