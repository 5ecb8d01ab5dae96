"""The records of a range of offsets, as the broker stores them: whole batches, undecoded.

Contains fetching one response ahead of the reader, and the handling of moved leaders, unavailable brokers and
deleted records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from barnabas.base.errors import ErrorCode
from barnabas.client.cluster import Cluster
from barnabas.client.consumer.fetch.completed_fetch import AbortedTransaction, CompletedFetch
from barnabas.client.consumer.fetch.fetch_session import FINAL_EPOCH, NO_SESSION, TOPIC_ID_VERSION
from barnabas.client.errors.base import AuthorizationError, RetriableError, error_for
from barnabas.client.errors.data import OffsetNotAvailableError, UnknownTopicOrPartitionError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import NO_NODE, Partition, TopicPartition
from barnabas.client.pool import Purpose
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.primitives import record_view
from barnabas.spark.source import clients
from barnabas.spark.source.bounds import bounds_of
from barnabas.spark.source.loss import LossReport
from barnabas.spark.source.ranges import OffsetRange

FETCH_KEY = FetchRequest.schema.key or 0
# Large fetches of one partition: a round trip and an Arrow batch per 8 MiB.  The first one is smaller, for
# queries that need only a few rows.
FETCH_BYTES = 8 << 20
FIRST_FETCH_BYTES = 1 << 20
MAX_WAIT_MS = 500
# How long a partition may be unknown before it counts as deleted.
UNKNOWN_TIMEOUT_MS = 10_000
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetch result at an offset; without `data` there is nothing (any more)."""

    offset: int
    data: bytes
    aborted: tuple[AbortedTransaction, ...] | None
    log_start_offset: int
    end_offset: int
    # Whether the broker reported that the offset, or the partition, does not exist.
    is_out_of_range: bool = False
    is_deleted: bool = False


def completed_fetches(
    client: Mapping[str, str], wanted: OffsetRange, poll_timeout_ms: int, report: LossReport
) -> Iterator[CompletedFetch]:
    """Yield the batches of a range, in the order of their offsets.

    The first and the last result may contain records outside of the range.
    """
    settings, cluster = clients.cluster_for(client)
    source = _Source(settings, cluster, wanted.topic_partition, poll_timeout_ms)
    offset = wanted.start
    coming: Future[Fetched] | None = clients.submit(source.fetch(offset, FIRST_FETCH_BYTES))
    from_earliest = wanted.from_earliest
    try:
        while coming is not None:
            fetched, coming = coming.result(), None
            if not fetched.data:
                offset = _next_available(fetched, wanted, from_earliest, report)
                if offset < wanted.end:
                    coming = clients.submit(source.fetch(offset, FETCH_BYTES))
                continue
            completed = CompletedFetch(
                wanted.topic_partition, fetched.data, offset, fetched.aborted, source.check_crcs
            )
            if fetched.log_start_offset > offset and not from_earliest:
                # Retention deleted the beginning of the range while it was being fetched.
                _check_gap(completed, fetched, wanted, report)
            offset, from_earliest = completed.end_offset, False
            if offset < wanted.end:
                coming = clients.submit(source.fetch(offset, FETCH_BYTES))
            yield completed
    finally:
        if coming is not None:
            coming.cancel()


def _next_available(fetched: Fetched, wanted: OffsetRange, from_earliest: bool, report: LossReport) -> int:
    """Return the next offset after one that a partition lacks; the end of the range if there is none."""
    partition, offset = wanted.topic_partition, fetched.offset
    if fetched.is_deleted:
        report.lost(f"{partition} was deleted, so offsets {offset} to {wanted.end - 1} cannot be read")
        return wanted.end
    first, end = fetched.log_start_offset, fetched.end_offset
    if offset < first and from_earliest:
        return min(first, wanted.end)
    if first <= offset < end:
        # Records that the broker reports as available are not lost.
        raise KafkaTimeoutError(f"{partition} has offsets {first} to {end - 1}, but gave nothing at {offset}")
    report.lost(
        f"{partition} has offsets {first} to {end - 1}, so {offset} to {wanted.end - 1} cannot all be read"
    )
    return first if offset < first < wanted.end else wanted.end


def _check_gap(completed: CompletedFetch, fetched: Fetched, wanted: OffsetRange, report: LossReport) -> None:
    """Report records below the log start as lost, but not gaps left by compaction or transactions."""
    batch = completed.rest().next_batch()
    first = completed.end_offset if batch is None else max(getattr(batch, "base_offset", 0), fetched.offset)
    if first > fetched.offset:
        report.lost(
            f"{wanted.topic_partition} begins at offset {fetched.log_start_offset} now, not at "
            f"{fetched.offset}"
        )


class _Source:
    """One partition, on whichever broker leads it."""

    def __init__(
        self, settings: Settings, cluster: Cluster, topic_partition: TopicPartition, poll_timeout_ms: int
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._topic_partition = topic_partition
        self._poll_timeout_ms = poll_timeout_ms
        self._committed_only = settings["isolation.level"] == "read_committed"
        self.check_crcs: bool = settings["check.crcs"]
        # A nearby replica that the leader prefers (KIP-392).
        self._preferred = NO_NODE

    async def fetch(self, offset: int, size: int) -> Fetched:
        """Fetch at an offset; a time-out names the reason if no broker responds in time."""
        deadline = Deadline(self._poll_timeout_ms)
        patience = Deadline(min(UNKNOWN_TIMEOUT_MS, self._poll_timeout_ms))
        failures = 0
        while True:
            try:
                fetched = await self._attempt(offset, size)
                if fetched.data or fetched.is_out_of_range or deadline.passed:
                    return fetched
                # No data yet: a leader that was just elected may not know its high watermark.  The broker has
                # already waited, so no pause is needed.
                continue
            except UnknownTopicOrPartitionError:
                if patience.passed:
                    return Fetched(offset, b"", None, -1, -1, is_deleted=True)
                reason: Exception = UnknownTopicOrPartitionError(f"{self._topic_partition} is not known")
            except RetriableError as error:
                reason = error
            self._cluster.metadata.expire()
            self._preferred = NO_NODE
            pause_s = self._cluster.retries.pause_s(failures)
            if pause_s >= deadline.left_s:
                raise KafkaTimeoutError(
                    f"{self._topic_partition} could not be read from offset {offset} on within "
                    f"{self._poll_timeout_ms} ms: {reason}"
                ) from reason
            await asyncio.sleep(pause_s)
            failures += 1

    async def _attempt(self, offset: int, size: int) -> Fetched:
        leader = (await self._cluster.leaders([self._topic_partition])).get(self._topic_partition)
        if leader is None:
            raise self._cluster.leaderless(self._topic_partition)
        node_id = leader.leader if self._preferred == NO_NODE else self._preferred
        connection = await self._cluster.connection_to(node_id, Purpose.FETCHES)
        topic_id = self._cluster.metadata.topics[self._topic_partition.topic].id
        version = None if any(topic_id) else TOPIC_ID_VERSION - 1
        limit_ms = self._settings["request.timeout.ms"] + MAX_WAIT_MS
        request = self._request(offset, size, leader)
        response = await connection.send(request, FetchResponse, highest=version, timeout_ms=limit_ms)
        if response.error_code:
            raise error_for(response.error_code)
        return await self._taken(offset, response.responses[0].partitions[0])

    def _request(self, offset: int, size: int, leader: Partition) -> FetchRequest:
        given = self._settings.is_given("max.partition.fetch.bytes")
        most: int = self._settings["max.partition.fetch.bytes"] if given else size
        partition = FetchRequest.Partition(
            partition=self._topic_partition.partition,
            current_leader_epoch=leader.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=most,
        )
        topic_id = self._cluster.metadata.topics[self._topic_partition.topic].id
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max(self._settings["fetch.max.bytes"], most),
            isolation_level=1 if self._committed_only else 0,
            session_id=NO_SESSION,
            session_epoch=FINAL_EPOCH,
            topics=[
                FetchRequest.Topic(
                    topic=self._topic_partition.topic, topic_id=topic_id, partitions=[partition]
                )
            ],
            rack_id=self._settings["client.rack"],
        )

    async def _taken(self, offset: int, partition_data: FetchResponse.PartitionData) -> Fetched:
        if partition_data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._out_of_range(offset)
        if partition_data.error_code in _UNKNOWN:
            raise UnknownTopicOrPartitionError(f"{self._topic_partition} is not known")
        if partition_data.error_code:
            error = error_for(partition_data.error_code)
            if isinstance(error, AuthorizationError):
                raise type(error)(f"not authorized to read {self._topic_partition.topic}")
            raise error
        if partition_data.preferred_read_replica != NO_NODE:
            self._preferred = partition_data.preferred_read_replica
        aborted = None
        if self._committed_only:
            aborted = tuple(
                AbortedTransaction(aborted_transaction.first_offset, aborted_transaction.producer_id)
                for aborted_transaction in partition_data.aborted_transactions or ()
            )
        end = partition_data.last_stable_offset if self._committed_only else partition_data.high_watermark
        data = bytes(record_view(partition_data.records))
        return Fetched(offset, data, aborted, partition_data.log_start_offset, end)

    async def _out_of_range(self, offset: int) -> Fetched:
        """The error response does not contain the bounds, so they are requested."""
        first, end = await bounds_of(
            self._cluster, self._topic_partition, committed_only=self._committed_only
        )
        if first <= offset < end:
            # The replica that responded lags: a nearby replica, or a leader that was just elected.
            raise OffsetNotAvailableError(f"{self._topic_partition} has offset {offset}, but not everywhere")
        return Fetched(offset, b"", None, first, end, is_out_of_range=True)
