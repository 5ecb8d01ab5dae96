"""Fetches in flight, and fetched records that wait for the user.

Contains the choice of the broker to fetch from, and the handling of its responses.  Start positions belong in
`positions`, assignments in `membership`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.batch.faults import CorruptBatch
from barnabas.client.background_tasks import BackgroundTasks
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import Cluster
from barnabas.client.consumer.fetch.completed_fetch import AbortedTransaction, CompletedFetch
from barnabas.client.consumer.fetch.fetch_session import TOPIC_ID_VERSION, FetchPart, FetchSession
from barnabas.client.consumer.subscription import PartitionState, Subscription
from barnabas.client.errors.base import AuthorizationError, error_for
from barnabas.client.model import NO_EPOCH, NO_NODE, Partition, TopicPartition
from barnabas.client.pool import Purpose
from barnabas.config.settings import Settings
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.primitives import Buffer, record_view
from barnabas.protocol.schema import Message
from barnabas.runtime.network.buffers import LARGE_FRAME_BYTES, BufferPool

FETCH_KEY = FetchRequest.schema.key or 0
# Completed fetches that a partition may buffer: one for the user, one fetched ahead.
MAX_COMPLETED_FETCHES = 2
LAST_NAMED_VERSION = TOPIC_ID_VERSION - 1
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
# Errors that are retried with fresh metadata.
_STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
_Requested = dict[TopicPartition, tuple[PartitionState, FetchPart]]


class Fetcher:
    """The fetches of one consumer."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        subscription: Subscription,
        out_of_range: Callable[[PartitionState, int], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # Handles a position that the log does not have; raises if there is no reset policy.
        self._out_of_range = out_of_range
        self._cluster = cluster
        self._subscription = subscription
        self._max_wait_ms: int = settings["fetch.max.wait.ms"]
        self._min_bytes: int = settings["fetch.min.bytes"]
        self._max_bytes: int = settings["fetch.max.bytes"]
        self._partition_bytes: int = settings["max.partition.fetch.bytes"]
        self._check_crcs: bool = settings["check.crcs"]
        self._committed_only = settings["isolation.level"] == "read_committed"
        self._rack: str = settings["client.rack"]
        self._request_timeout_ms: int = settings["request.timeout.ms"]
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: set[int] = set()
        self._not_before: dict[int, float] = {}
        self._background_tasks = BackgroundTasks(cluster, self.fetch, Purpose.FETCHES)
        self._retry: asyncio.TimerHandle | None = None
        # Partitions with buffered fetches, in round-robin order.
        self._ready: deque[PartitionState] = deque()
        self._errors: deque[KafkaError] = deque()
        self._buffers = BufferPool()
        self._woken: asyncio.Future[None] | None = None
        self._is_closed = False

    # ------------------------------------------------------------------------------------------- for the user

    def take(self, most: int) -> list[ConsumerRecord[bytes, bytes | None]]:
        """Return fetched records, one partition after the other; raises if a fetch failed."""
        ready = self._ready
        taken: list[ConsumerRecord[bytes, bytes | None]] = []
        while ready and len(taken) < most:
            state = ready[0]
            if not self._can_take(state):
                ready.popleft()
                continue
            completed = state.completed_fetches[0]
            try:
                records = completed.take(most - len(taken))
            except CorruptBatch:
                if taken:
                    return taken
                raise
            if records:
                state.position, state.offset_epoch = completed.next_offset, completed.offset_epoch
                taken = records if not taken else taken + records
                continue
            self._finish_first(state)
        if self._errors and not taken:
            raise self._errors.popleft()
        return taken

    def take_completed_fetch(self) -> tuple[PartitionState, CompletedFetch] | None:
        """Return a whole completed fetch, for readers that do not want single records."""
        if self._errors:
            raise self._errors.popleft()
        while self._ready:
            state = self._ready[0]
            if self._can_take(state):
                return state, state.completed_fetches[0]
            self._ready.popleft()
        return None

    def finished(self, state: PartitionState) -> None:
        """Called when all of the first completed fetch was taken."""
        self._finish_first(state)

    def _can_take(self, state: PartitionState) -> bool:
        is_mine = self._subscription.partitions.get(state.topic_partition) is state
        return bool(is_mine and state.completed_fetches and not state.is_paused and not state.is_revoked_soon)

    def _finish_first(self, state: PartitionState) -> None:
        completed = state.completed_fetches.popleft()
        completed.finish()
        if isinstance(completed.data, memoryview) and isinstance(completed.data.obj, bytearray):
            self._buffers.give(completed.data.obj)
        state.position = max(state.position, completed.next_offset)
        if completed.offset_epoch >= 0:
            state.offset_epoch = completed.offset_epoch
        # Rotate to the next partition.
        self._ready.popleft()
        if state.completed_fetches:
            self._ready.append(state)
        self.fetch()

    def resumed(self, state: PartitionState) -> None:
        """Called after a pause: buffered records may be taken again."""
        if state.completed_fetches and state not in self._ready:
            self._ready.append(state)
            self.wake()

    async def wait(self, timeout_s: float) -> None:
        """Wait until records or an error arrive, or `wake` is called."""
        if timeout_s <= 0 or self._errors:
            return
        if self._woken is None or self._woken.done():
            self._woken = self._loop.create_future()
        await asyncio.wait([self._woken], timeout=timeout_s)

    def wake(self) -> None:
        """Wake the waiting poll."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    # ----------------------------------------------------------------------------------------------- fetching

    def fetch(self) -> None:
        """Send a fetch to every broker that leads assigned partitions and has no fetch in flight."""
        if self._is_closed:
            return
        leader_of = self._cluster.metadata.leader_of
        by_node: dict[int, list[tuple[PartitionState, Partition]]] = {}
        held: set[int] = set()
        leaderless = False
        for state in self._subscription.partitions.values():
            if state.is_paused or state.is_revoked_soon:
                continue
            leader = leader_of(state.topic_partition)
            if leader is None:
                leaderless = True
                continue
            node_id = self._source(state, leader)
            if (
                len(state.completed_fetches) >= MAX_COMPLETED_FETCHES
                or not state.has_position
                or _is_unchecked(state, leader)
            ):
                # A fetch without this partition would delay it while it waits for records of the others.
                held.add(node_id)
            else:
                by_node.setdefault(node_id, []).append((state, leader))
        for node_id, parts in by_node.items():
            if node_id not in held and node_id not in self._in_flight:
                self._fetch_from(node_id, parts)
        if leaderless or self._cluster.is_stale:
            self._background_tasks.update_metadata(self._lacks_leaders)

    def _source(self, state: PartitionState, leader: Partition) -> int:
        """Return the leader, or the nearby replica that it prefers (KIP-392)."""
        if state.preferred_replica != NO_NODE and state.preferred_replica in self._cluster.metadata.brokers:
            return state.preferred_replica
        return leader.leader

    def _fetch_from(self, node_id: int, parts: list[tuple[PartitionState, Partition]]) -> None:
        now = self._loop.time()
        if self._not_before.get(node_id, 0.0) > now:
            self._fetch_later(self._not_before[node_id] - now)
            return
        connection = self._cluster.pool.ready(self._cluster.metadata.brokers[node_id], Purpose.FETCHES)
        if connection is None:
            self._background_tasks.connect(node_id, self._unreachable)
            return
        if connection.throttled_s > 0:
            self._fetch_later(connection.throttled_s)
            return
        requested: _Requested = {}
        for state, leader in parts:
            topic_id = self._cluster.metadata.topics[state.topic_partition.topic].id
            epoch = leader.leader_epoch
            part = FetchPart(
                topic_id, state.fetch_offset, state.log_start_offset, self._partition_bytes, epoch
            )
            requested[state.topic_partition] = (state, part)
        self._send_fetch(connection, requested)

    def _send_fetch(self, connection: BrokerConnection, requested: _Requested) -> None:
        node_id = connection.node.id
        session = self._sessions.setdefault(node_id, FetchSession())
        has_ids = all(any(part.topic_id) for _, part in requested.values())
        version = connection.version_for(FETCH_KEY, None if has_ids else LAST_NAMED_VERSION)
        topics, forgotten = session.next({partition: part for partition, (_, part) in requested.items()})
        request = FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=1 if self._committed_only else 0,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=self._rack,
        )
        self._in_flight.add(node_id)
        limit_ms = self._request_timeout_ms + self._max_wait_ms
        on_response = partial(self._on_response, node_id, session, requested)
        connection.send_with_callback(request, version, on_response, limit_ms, in_place=True)

    def _on_response(
        self,
        node_id: int,
        session: FetchSession,
        requested: _Requested,
        message: Message | None,
        error: Exception | None,
    ) -> None:
        self._in_flight.discard(node_id)
        if not isinstance(message, FetchResponse):
            session.reset()
            self._cluster.metadata.expire()
            self._pause(node_id)
        elif message.error_code:
            session.reset()
            if message.error_code not in _SESSION_ERRORS:
                self._pause(node_id)
        else:
            session.accepted(message.session_id)
            for topic in message.responses:
                name = topic.topic or session.name_of(topic.topic_id) or ""
                for data in topic.partitions:
                    entry = requested.get(TopicPartition(name, data.partition_index))
                    if entry is not None:
                        self._handle_partition(node_id, *entry, data)
        self.fetch()

    def _handle_partition(
        self,
        node_id: int,
        state: PartitionState,
        part: FetchPart,
        partition_data: FetchResponse.PartitionData,
    ) -> None:
        if self._subscription.partitions.get(state.topic_partition) is not state or not state.has_position:
            return
        if state.fetch_offset != part.fetch_offset:
            # The user has sought elsewhere in the meantime.
            return
        if partition_data.error_code:
            self._handle_error(node_id, state, part, partition_data.error_code)
            return
        state.checked_epoch = max(state.checked_epoch, part.leader_epoch)
        state.high_watermark = partition_data.high_watermark
        state.last_stable_offset = partition_data.last_stable_offset
        state.log_start_offset = partition_data.log_start_offset
        if partition_data.preferred_read_replica != NO_NODE:
            state.preferred_replica = partition_data.preferred_read_replica
        view = record_view(partition_data.records)
        if not len(view):
            return
        aborted = None
        if self._committed_only:
            aborted = [
                AbortedTransaction(aborted_transaction.first_offset, aborted_transaction.producer_id)
                for aborted_transaction in partition_data.aborted_transactions or ()
            ]
        completed = CompletedFetch(
            state.topic_partition, self._copy(view), part.fetch_offset, aborted, self._check_crcs
        )
        state.fetch_offset = completed.end_offset
        if not state.completed_fetches:
            self._ready.append(state)
        state.completed_fetches.append(completed)
        self.wake()

    def _copy(self, view: memoryview) -> Buffer:
        """Copy records out of the receive buffer; large copies reuse buffers, as fresh memory costs more in
        the kernel than the copy."""
        if len(view) <= LARGE_FRAME_BYTES:
            return bytes(view)
        kept = memoryview(self._buffers.take(len(view)))[: len(view)]
        kept[:] = view
        return kept

    def _handle_error(self, node_id: int, state: PartitionState, part: FetchPart, code: int) -> None:
        if state.preferred_replica != NO_NODE:
            # Fall back to the leader, whatever the error.
            state.preferred_replica = NO_NODE
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.completed_fetches:
                # Buffered records are still valid; their end is fetched again, or has changed, when they are
                # used up.
                state.fetch_offset = state.completed_fetches[-1].end_offset
            else:
                self._reset(state, part.fetch_offset)
            return
        if code in _STALE:
            self._cluster.metadata.expire()
            self._pause(node_id)
            return
        error = error_for(code)
        if isinstance(error, AuthorizationError):
            error = type(error)(f"not authorized to read {state.topic_partition.topic}")
        self._errors.append(error)
        self._pause(node_id)
        self.wake()

    def _reset(self, state: PartitionState, offset: int) -> None:
        try:
            self._out_of_range(state, offset)
        except KafkaError as error:
            self._errors.append(error)
            self._pause_all()
        self.wake()

    # -------------------------------------------------------------------------------------- delays and errors

    def _pause_all(self) -> None:
        for node_id in self._cluster.metadata.brokers:
            self._pause(node_id)

    def _pause(self, node_id: int) -> None:
        self._not_before[node_id] = self._loop.time() + self._cluster.retries.pause_s(0)

    def _fetch_later(self, delay_s: float) -> None:
        if self._retry is None:
            self._retry = self._loop.call_later(delay_s, self._fetch_again)

    def _fetch_again(self) -> None:
        self._retry = None
        self.fetch()

    def _unreachable(self, node_id: int) -> None:
        self._pause(node_id)
        # A preferred replica that cannot be reached is of no use.
        for state in self._subscription.partitions.values():
            if state.preferred_replica == node_id:
                state.preferred_replica = NO_NODE

    def _lacks_leaders(self) -> bool:
        leader_of = self._cluster.metadata.leader_of
        return any(leader_of(partition) is None for partition in self._subscription.partitions)

    async def close(self) -> None:
        self._is_closed = True
        self.wake()
        if self._retry is not None:
            self._retry.cancel()
        await self._background_tasks.close()


def _is_unchecked(state: PartitionState, leader: Partition) -> bool:
    """Whether the position has yet to be validated against the new leader's log (KIP-320)."""
    return state.offset_epoch != NO_EPOCH and leader.leader_epoch > state.checked_epoch
