"""The consumer: the order of work in a poll, and the public calls.

Fetching, positions, commits and membership belong in the packages beside it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, Unpack

from barnabas.base.type_variables import K, V
from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.client.consumer.fetch.arrow import arrow_batch, pyarrow
from barnabas.client.consumer.membership.classic import ClassicMembership
from barnabas.client.consumer.membership.consumer_protocol import ConsumerProtocolMembership
from barnabas.client.consumer.membership.membership import AssignmentHandler
from barnabas.client.consumer.offsets.committing import Committing
from barnabas.client.consumer.offsets.seeking import Seeking
from barnabas.client.consumer.subscription import Mode, RebalanceListener
from barnabas.client.errors.base import RetriableError
from barnabas.client.errors.groups import InvalidGroupIdError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import TopicPartition, as_partitions, check_topic
from barnabas.client.retries import Deadline
from barnabas.client.types.serializers import DeserializerGiven

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.types.options import ConsumerOptions
    from barnabas.client.types.statistics import ConsumerStatistics

logger = logging.getLogger(__name__)

DEFAULT_POLL_MS = 1_000
DEFAULT_CLOSE_MS = 30_000
# While records flow, membership, metadata and positions are maintained this often, not in every poll.
MAINTENANCE_INTERVAL_S = 0.1
# A poll that waits for records also maintains them, more often while membership or positions are unsettled.
UNSETTLED_WAIT_S = 0.05
SETTLED_WAIT_S = 1.0


def split_arguments(
    config: Mapping[str, object] | str | None, topics: tuple[str, ...]
) -> tuple[Mapping[str, object] | None, list[str]]:
    """The options and the topics of a constructor, whose first argument is a dict of options or a topic."""
    names = [*topics]
    if isinstance(config, str):
        names.insert(0, config)
        config = None
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f"the first argument is a topic or a dict of options, not {type(config).__name__}")
    for name in names:
        check_topic(name)
    return config, names


def by_partition(records: list[ConsumerRecord[K, V]]) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
    found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return found


class Consumer(Seeking, Committing, Generic[K, V]):
    """Reads records.

        async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            async for record in consumer:
                ...

    Options are Apache Kafka's, as keywords with underscores or as a dict with dots (the first argument).
    Topics may follow, or be given to `subscribe` later; without `group_id` all their partitions are read.
    Rebalances happen within `poll` (and so within the loop above), never while a record is being processed.
    """

    def __init__(
        self,
        config: Mapping[str, object] | str | None = None,
        /,
        *topics: str,
        key_deserializer: DeserializerGiven[K] | None = None,
        value_deserializer: DeserializerGiven[V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        given, names = split_arguments(config, topics)
        super().__init__(
            given,
            {**options, "key_deserializer": key_deserializer, "value_deserializer": value_deserializer},
        )
        self._assignment_handler = AssignmentHandler(self._subscription, self._commit_before_revocation)
        self.cluster.on_update.append(self._take_whole_topics)
        if names and self._group_id is not None:
            self.subscribe(names)
        elif names:
            self._subscription.read_whole(names)
            self.cluster.wanted = set(names)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------------- subscription

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        server_pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe as a member of the group: to topics by name, to a pattern that the client matches, or to
        a pattern (RE2) that the broker matches (`group.protocol=consumer` only)."""
        self._check_open()
        if self._group_id is None:
            raise InvalidGroupIdError(
                "set group.id to subscribe; to read without a group, give the topics to the constructor, or "
                "assign() partitions"
            )
        names = [topics] if isinstance(topics, str) else list(topics)
        for name in names:
            check_topic(name)
        if bool(names) + (pattern is not None) + (server_pattern is not None) > 1:
            raise ValueError("subscribe to topics or to one pattern, not to both")
        uses_consumer_protocol = self.settings["group.protocol"].lower() == "consumer"
        if server_pattern is not None and not uses_consumer_protocol:
            raise ValueError("server_pattern needs group.protocol=consumer; use pattern with classic groups")
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        self._subscription.subscribe(
            names, pattern=compiled, server_pattern=server_pattern, listener=listener
        )
        self._out.forget_all()
        self.cluster.wanted = set(names) if names else None
        self.cluster.metadata.expire()
        if self._membership is None:
            kind = ConsumerProtocolMembership if uses_consumer_protocol else ClassicMembership
            self._membership = kind(
                self.settings, self.cluster, self._subscription, self._assignment_handler, self._fetcher.wake
            )
        self._maintenance_at = 0.0

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign these partitions manually, without a group."""
        self._check_open()
        wanted = as_partitions(partitions)
        self._subscription.assign(wanted)
        self._out.forget_all()
        self.cluster.wanted = {partition.topic for partition in wanted}
        self._maintenance_at = 0.0

    def _take_whole_topics(self) -> None:
        """Without a group: read the partitions that the metadata now has."""
        if self._subscription.mode is not Mode.WHOLE_TOPICS:
            return
        partitions = [
            TopicPartition(name, partition.number)
            for name in sorted(self._subscription.topics)
            if (layout := self.cluster.metadata.topics.get(name)) is not None
            for partition in layout.partitions
        ]
        if set(partitions) - self._subscription.partitions.keys():
            # One that is missing for a moment keeps its position.
            self._subscription.set_partitions([*self._subscription.partitions, *partitions])
            self._maintenance_at = 0.0

    async def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group."""
        await self._leave(Deadline(self.settings["default.api.timeout.ms"]))
        self._subscription.clear()
        self._out.forget_all()

    def subscription(self) -> frozenset[str]:
        """Return the topics of the subscription; of a pattern those that match."""
        return self._subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this consumer reads now."""
        return frozenset(self._subscription.partitions)

    # ------------------------------------------------------------------------------------------------ records

    async def poll(
        self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return the next records, at most `max.poll.records`; an empty list if none arrive in time."""
        most = self._max_poll_records if max_records is None else max_records
        if self._membership is not None:
            self._membership.polled()
        left = self._out.left(most)
        if left:
            return left
        if self._loop.time() < self._maintenance_at and not self._needs_attention():
            records = self._fetcher.take(most)
            if records:
                return self._out.give(records)
        deadline = Deadline(timeout_ms)
        while True:
            await self._maintain(deadline)
            records = self._fetcher.take(most)
            if records:
                return self._out.give(records)
            if self._is_awake or deadline.passed:
                self._is_awake = False
                return []
            await self._fetcher.wait(min(deadline.left_s, self._wait_s()))

    async def getone(self, *, timeout_ms: int | None = None) -> ConsumerRecord[K, V]:
        """Return the next record; raises KafkaTimeoutError if none arrives in time, or after `wakeup`."""
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        while True:
            wait_ms = DEFAULT_POLL_MS if deadline is None else min(DEFAULT_POLL_MS, deadline.left_ms)
            began_at = self._loop.time()
            for record in await self.poll(wait_ms, 1):
                return record
            if deadline is not None and deadline.passed:
                raise KafkaTimeoutError(f"no record arrived within {timeout_ms} ms")
            if self._loop.time() - began_at < wait_ms / 1000:
                raise KafkaTimeoutError("the consumer was woken up before a record arrived")

    async def getmany(
        self, timeout_ms: int = DEFAULT_POLL_MS, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Like `poll`, with the records by partition."""
        return by_partition(await self.poll(timeout_ms, max_records))

    async def poll_arrow(
        self, timeout_ms: int = DEFAULT_POLL_MS, *, include_headers: bool = False
    ) -> pa.RecordBatch | None:
        """Return the next records of one partition as an Arrow batch; None if none arrive in time.

        Columns: topic, partition, offset, timestamp, timestamp_type, key, value, and optionally headers.
        Keys and values are bytes: deserializers and interceptors are not applied.
        """
        pyarrow()
        deadline = Deadline(timeout_ms)
        if self._membership is not None:
            self._membership.polled()
        self._out.rewind()
        while True:
            if self._loop.time() >= self._maintenance_at or self._needs_attention():
                await self._maintain(deadline)
            fetched = self._fetcher.take_completed_fetch()
            if fetched is None:
                if self._is_awake or deadline.passed:
                    self._is_awake = False
                    return None
                self._maintenance_at = 0.0
                await self._fetcher.wait(min(deadline.left_s, self._wait_s()))
                continue
            state, completed = fetched
            batch = arrow_batch(completed, include_headers)
            self._fetcher.finished(state)
            if batch is not None:
                return batch

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        while not self._is_closed:
            records = await self.poll()
            out = self._out
            out.begin(records)
            for record in records:
                out.taken += 1
                yield record
                if out.records is not records:
                    # A seek, a pause or another poll came in between.
                    break

    def statistics(self) -> ConsumerStatistics:
        """Return how much was read and what is left; cheap enough for a metrics endpoint."""
        from barnabas.client.types.statistics import ConsumerStatistics

        lag = {partition: self.current_lag(partition) for partition in self._subscription.partitions}
        return ConsumerStatistics(self._out.returned_count, lag)

    def wakeup(self) -> None:
        """Make a waiting poll return at once, without records."""
        self._is_awake = True
        self._fetcher.wake()

    # -------------------------------------------------------------------------------------------- maintenance

    def _needs_attention(self) -> bool:
        return self._membership is not None and self._membership.needs_attention

    def _wait_s(self) -> float:
        """Return how long to wait until maintenance is due again."""
        joins = self._needs_attention() and self._subscription.is_group_managed
        return UNSETTLED_WAIT_S if joins or self._positions.is_unsettled else SETTLED_WAIT_S

    async def _maintain(self, deadline: Deadline) -> None:
        """Join the group, find positions, fetch, and auto-commit when it is due."""
        self._check_usable()
        self._maintenance_at = self._loop.time() + MAINTENANCE_INTERVAL_S
        subscription = self._subscription
        if self._needs_topics():
            await self._update_topics(deadline)
        membership = self._membership
        if membership is not None and subscription.is_group_managed and membership.needs_attention:
            await membership.update(deadline)
        if self._auto_commit_s is not None and self._loop.time() >= self._commit_at:
            self._commit_at = self._loop.time() + self._auto_commit_s
            self._commit_in_background(self._out.consumed(), None)
        if self._positions.is_unsettled:
            await self._positions.settle(deadline)
        self._fetcher.fetch()

    def _needs_topics(self) -> bool:
        """A pattern needs the names of all topics, a consumer without a group the partitions of its own."""
        mode = self._subscription.mode
        if mode is Mode.WHOLE_TOPICS:
            return self.cluster.is_stale
        return mode is Mode.PATTERN and self.cluster.metadata.is_expired

    async def _update_topics(self, deadline: Deadline) -> None:
        """The update continues if the poll times out."""
        try:
            async with asyncio.timeout(deadline.left_s):
                await self.cluster.update()
        except RetriableError:
            await asyncio.sleep(min(deadline.left_s, self.cluster.retries.pause_s(0)))
        except TimeoutError:
            return

    async def close(self, *, timeout_ms: int = DEFAULT_CLOSE_MS) -> None:
        """Auto-commit if enabled, leave the group, and close the connections."""
        if self._is_closing:
            return
        # Not closed yet: a rebalance listener may still commit.
        self._is_closing = True
        deadline = Deadline(timeout_ms)
        try:
            await self._leave(deadline)
            if self._committing:
                await asyncio.wait(self._committing, timeout=deadline.left_s)
        finally:
            self._is_closed = True
            for task in self._committing:
                task.cancel()
            await asyncio.gather(*self._committing, return_exceptions=True)
            await self._fetcher.close()
            await self._positions.close()
            if self._membership is not None:
                await self._membership.close()
            await self.cluster.close()
            self._out.close()

    async def _leave(self, deadline: Deadline) -> None:
        if self._subscription.is_group_managed and self._membership is not None:
            try:
                async with asyncio.timeout(deadline.left_s):
                    await self._assignment_handler.revoke(list(self._subscription.partitions))
            except TimeoutError:
                logger.warning("partitions were not revoked in time")
            await self._membership.leave(deadline)
        elif self._subscription.mode in (Mode.ASSIGNED, Mode.WHOLE_TOPICS):
            await self._commit_before_revocation(list(self._subscription.partitions))
