"""Start positions: committed offsets, the reset policy, offsets by timestamp, and truncation detection.

Fetching and committing belong elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from barnabas.base.errors import KafkaError
from barnabas.base.ids import CONSUMER_REPLICA
from barnabas.base.units import NS_PER_MS
from barnabas.client.admin.records import IsolationLevel, ListedOffset, OffsetSpec, RecordCalls
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import Cluster
from barnabas.client.consumer.subscription import PartitionState, Subscription
from barnabas.client.errors.base import RetriableError, error_for
from barnabas.client.errors.data import OffsetOutOfRangeError
from barnabas.client.errors.local import NoOffsetForPartitionError
from barnabas.client.model import (
    NO_EPOCH,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    by_topic,
)
from barnabas.client.outcomes import Outcomes
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.config.values.durations import parse_duration_ns
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

BY_DURATION = "by_duration:"

Committed = Callable[
    [list[TopicPartition], Deadline], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]
]


class Positions:
    """Finds the position of every partition that has none, and validates positions after elections."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        subscription: Subscription,
        clock: Clock,
        committed: Committed | None,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._clock = clock
        self._committed = committed
        self._policy: str = settings["auto.offset.reset"]
        self._isolation = IsolationLevel[settings["isolation.level"].upper()]
        self._lookup = RecordCalls(settings, cluster)
        self._timeout_ms: int = settings["default.api.timeout.ms"]
        self._settling: asyncio.Task[None] | None = None

    def policy_time(self) -> int | None:
        """Return the timestamp of the reset policy; None if the policy is none."""
        if self._policy == "earliest":
            return int(OffsetSpec.EARLIEST)
        if self._policy == "latest":
            return int(OffsetSpec.LATEST)
        if self._policy.startswith(BY_DURATION):
            back_ms = parse_duration_ns(self._policy.removeprefix(BY_DURATION)) // NS_PER_MS
            return self._clock.wall_ms() - back_ms
        return None

    def out_of_range(self, state: PartitionState, offset: int) -> None:
        """Reset a position that the log does not have; raises if the policy is none."""
        time = self.policy_time()
        if time is None:
            raise OffsetOutOfRangeError(
                f"{state.topic_partition} has no offset {offset}, and auto.offset.reset is none: seek, or "
                "set it"
            )
        logger.info(
            "%s has no offset %s: resetting by auto.offset.reset=%s",
            state.topic_partition,
            offset,
            self._policy,
        )
        state.reset(time)

    # ------------------------------------------------------------------------------------------ within a poll

    @property
    def is_unsettled(self) -> bool:
        return self._settling is not None or self.is_incomplete or bool(self.unchecked())

    async def settle(self, deadline: Deadline) -> None:
        """Find and validate positions; continues in the background if the poll times out."""
        if self._settling is None:
            self._settling = asyncio.ensure_future(self._settle())
        done, _ = await asyncio.wait([self._settling], timeout=deadline.left_s)
        if done:
            settled, self._settling = self._settling, None
            settled.result()

    async def _settle(self) -> None:
        deadline = Deadline(self._timeout_ms)
        try:
            if self.is_incomplete:
                await self.find(deadline)
            unchecked = self.unchecked()
            if unchecked:
                await self.check(unchecked, deadline)
        except RetriableError as error:
            logger.debug("will be retried: %s", error)
            await asyncio.sleep(self._cluster.retries.pause_s(0))

    async def close(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.gather(self._settling, return_exceptions=True)

    # ---------------------------------------------------------------------------------------- start positions

    @property
    def is_incomplete(self) -> bool:
        return any(not state.has_position for state in self._subscription.partitions.values())

    async def find(self, deadline: Deadline) -> None:
        """Set the position of every partition, as far as that is possible now."""
        fresh = [state for state in self._subscription.partitions.values() if state.is_fresh]
        if fresh and self._committed is not None:
            offsets = await self._committed([state.topic_partition for state in fresh], deadline)
            for state in fresh:
                committed = offsets.get(state.topic_partition)
                if committed is not None and self._is_current(state) and state.is_fresh:
                    state.seek(committed.offset, committed.leader_epoch)
        for state in fresh:
            if state.is_fresh:
                self._begin(state)
        lost = [state for state in self._subscription.partitions.values() if state.reset_to is not None]
        if lost:
            await self._reset(lost, deadline)

    def _begin(self, state: PartitionState) -> None:
        time = self.policy_time()
        if time is None:
            raise NoOffsetForPartitionError(
                f"nothing is committed for {state.topic_partition}, and auto.offset.reset is none"
            )
        state.reset_to = time

    async def _reset(self, states: list[PartitionState], deadline: Deadline) -> None:
        times = {state.topic_partition: state.reset_to for state in states if state.reset_to is not None}
        outcomes = await self.offsets(times, deadline)
        empty = {
            partition: int(OffsetSpec.LATEST)
            for partition, offset in outcomes.values_by_key.items()
            if offset.offset < 0
        }
        # No record is that new: start at the end.
        ends = await self.offsets(empty, deadline) if empty else outcomes
        for state in states:
            listed = ends if state.topic_partition in empty else outcomes
            error = listed.error_of(state.topic_partition)
            if error is not None:
                if not isinstance(error, RetriableError):
                    raise error
                continue
            if self._is_current(state) and state.reset_to == times[state.topic_partition]:
                offset = listed[state.topic_partition]
                state.seek(offset.offset, NO_EPOCH)

    def _is_current(self, state: PartitionState) -> bool:
        return self._subscription.partitions.get(state.topic_partition) is state

    # ----------------------------------------------------------------------------------------- public lookups

    async def offsets(
        self, times: Mapping[TopicPartition, int], deadline: Deadline
    ) -> Outcomes[TopicPartition, ListedOffset]:
        return await self._lookup.list_offsets(
            times, isolation_level=self._isolation, timeout_ms=deadline.left_ms
        )

    async def edge(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, deadline: Deadline
    ) -> dict[TopicPartition, int]:
        """Return the earliest or latest offsets of partitions."""
        outcomes = await self.offsets({partition: int(spec) for partition in partitions}, deadline)
        return {partition: outcomes[partition].offset for partition in outcomes}

    async def by_time(
        self, times: Mapping[TopicPartition, int], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a timestamp; None if there is none."""
        outcomes = await self.offsets(times, deadline)
        return {
            partition: OffsetAndTimestamp(listed.offset, listed.timestamp, listed.leader_epoch)
            if listed.offset >= 0
            else None
            for partition, listed in ((partition, outcomes[partition]) for partition in outcomes)
        }

    # -------------------------------------------------------------------------------------- after an election

    def unchecked(self) -> list[PartitionState]:
        """Return partitions whose leader changed since their position was last validated (KIP-320)."""
        states = []
        for state in self._subscription.partitions.values():
            if state.has_position and state.offset_epoch != NO_EPOCH:
                leader = self._cluster.metadata.leader_of(state.topic_partition)
                if leader is not None and leader.leader_epoch > state.checked_epoch:
                    states.append(state)
        return states

    async def check(self, states: list[PartitionState], deadline: Deadline) -> None:
        """Detect truncation: an elected leader may have had a shorter log than our position."""
        epochs = {state.topic_partition: state.offset_epoch for state in states}

        async def send(
            connection: BrokerConnection, requested: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetForLeaderEpochResponse.EpochEndOffset | KafkaError]:
            response = await connection.send(
                self._epoch_request(requested, epochs), OffsetForLeaderEpochResponse
            )
            return {
                TopicPartition(topic.topic, partition.partition): error_for(partition.error_code)
                if partition.error_code
                else partition
                for topic in response.topics
                for partition in topic.partitions
            }

        known = {
            state.topic_partition: leader.leader_epoch
            for state in states
            if (leader := self._cluster.metadata.leader_of(state.topic_partition)) is not None
        }
        outcomes = await self._lookup.send_to_leaders(epochs, send, deadline.left_ms, "OffsetForLeaderEpoch")
        for state in states:
            error = outcomes.error_of(state.topic_partition)
            if error is not None:
                if not isinstance(error, RetriableError):
                    raise error
                continue
            if state.offset_epoch != epochs[state.topic_partition]:
                # The user has sought elsewhere: the response is about an outdated position.
                continue
            state.checked_epoch = known.get(state.topic_partition, state.checked_epoch)
            self._check_truncation(state, outcomes[state.topic_partition])

    def _epoch_request(
        self, requested: list[TopicPartition], epochs: Mapping[TopicPartition, int]
    ) -> OffsetForLeaderEpochRequest:
        return OffsetForLeaderEpochRequest(
            replica_id=CONSUMER_REPLICA,
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                            partition=number, leader_epoch=epochs[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(requested).items()
            ],
        )

    def _check_truncation(
        self, state: PartitionState, epoch_end_offset: OffsetForLeaderEpochResponse.EpochEndOffset
    ) -> None:
        if (
            epoch_end_offset.end_offset < 0
            or epoch_end_offset.end_offset >= state.position
            or not self._is_current(state)
        ):
            return
        if self.policy_time() is None:
            raise OffsetOutOfRangeError(
                f"the log of {state.topic_partition} was truncated to offset {epoch_end_offset.end_offset}, "
                "below the position "
                f"{state.position}: seek to continue"
            )
        logger.warning(
            "the log of %s was truncated to offset %s, below the position %s: continuing there",
            state.topic_partition,
            epoch_end_offset.end_offset,
            state.position,
        )
        state.seek(epoch_end_offset.end_offset, epoch_end_offset.leader_epoch)
