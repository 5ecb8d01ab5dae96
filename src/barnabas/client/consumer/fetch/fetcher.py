"""Reading ahead: fetches under way, and the records that wait for the user.

What lives here: which broker is asked for what, and what its answers mean.  What may not: where to start
reading (positions) and who reads what (membership).
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
from barnabas.client.errors.kinds import AuthorizationError, error_for
from barnabas.client.model import NO_EPOCH, NO_NODE, Partition, TopicPartition
from barnabas.client.pool import Purpose
from barnabas.config.settings import Settings
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.primitives import Buffer, record_view
from barnabas.protocol.schema import Message
from barnabas.runtime.network.buffers import LARGE_FRAME_BYTES, BufferPool

FETCH_KEY = FetchRequest.schema.key or 0
# Answers of one partition that may wait: one for the user, and one that was read ahead meanwhile.
MAX_CHUNKS = 2
LAST_NAMED_VERSION = TOPIC_ID_VERSION - 1
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
# What only means: ask again, with fresh metadata.
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
_Asked = dict[TopicPartition, tuple[PartitionState, FetchPart]]


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
        # What is done about a position that a log does not have: it raises if nothing is.
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
        self._under_way: set[int] = set()
        self._not_before: dict[int, float] = {}
        self._background_tasks = BackgroundTasks(cluster, self.fetch, Purpose.FETCHES)
        self._retry: asyncio.TimerHandle | None = None
        # Partitions with something to take, in turn.
        self._ready: deque[PartitionState] = deque()
        self._errors: deque[KafkaError] = deque()
        self._buffers = BufferPool()
        self._news: asyncio.Future[None] | None = None
        self._is_closed = False

    # ------------------------------------------------------------------------------------------ for the user

    def take(self, most: int) -> list[ConsumerRecord]:
        """Records that have been read ahead, of one partition after the other; an error if one came."""
        ready = self._ready
        taken: list[ConsumerRecord] = []
        while ready and len(taken) < most:
            state = ready[0]
            if not self._can_take(state):
                ready.popleft()
                continue
            chunk = state.chunks[0]
            try:
                records = chunk.take(most - len(taken))
            except CorruptBatch:
                if taken:
                    return taken
                raise
            if records:
                state.position, state.offset_epoch = chunk.next_offset, chunk.offset_epoch
                taken = records if not taken else taken + records
                continue
            self._used_up(state)
        if self._errors and not taken:
            raise self._errors.popleft()
        return taken

    def take_chunk(self) -> tuple[PartitionState, CompletedFetch] | None:
        """A whole answer that was read ahead, for readers that want no single records."""
        if self._errors:
            raise self._errors.popleft()
        while self._ready:
            state = self._ready[0]
            if self._can_take(state):
                return state, state.chunks[0]
            self._ready.popleft()
        return None

    def used_up(self, state: PartitionState) -> None:
        """All of the first chunk was taken."""
        self._used_up(state)

    def _can_take(self, state: PartitionState) -> bool:
        is_mine = self._subscription.partitions.get(state.where) is state
        return bool(is_mine and state.chunks and not state.is_paused and not state.is_revoked_soon)

    def _used_up(self, state: PartitionState) -> None:
        chunk = state.chunks.popleft()
        chunk.finish()
        if isinstance(chunk.data, memoryview) and isinstance(chunk.data.obj, bytearray):
            self._buffers.give(chunk.data.obj)
        state.position = max(state.position, chunk.next_offset)
        if chunk.offset_epoch >= 0:
            state.offset_epoch = chunk.offset_epoch
        # The next partition's turn.
        self._ready.popleft()
        if state.chunks:
            self._ready.append(state)
        self.fetch()

    def resumed(self, state: PartitionState) -> None:
        """What was read ahead before a pause may be taken again."""
        if state.chunks and state not in self._ready:
            self._ready.append(state)
            self.tell()

    async def wait(self, timeout_s: float) -> None:
        """Until there is news: records, an error, or something that others told by `tell`."""
        if timeout_s <= 0 or self._errors:
            return
        if self._news is None or self._news.done():
            self._news = self._loop.create_future()
        await asyncio.wait([self._news], timeout=timeout_s)

    def tell(self) -> None:
        """Wake who waits."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # ---------------------------------------------------------------------------------------------- fetching

    def fetch(self) -> None:
        """Ask every broker that has something for us and is not being asked already."""
        if self._is_closed:
            return
        leader_of = self._cluster.metadata.leader_of
        by_node: dict[int, list[tuple[PartitionState, Partition]]] = {}
        held: set[int] = set()
        leaderless = False
        for state in self._subscription.partitions.values():
            if state.is_paused or state.is_revoked_soon:
                continue
            leader = leader_of(state.where)
            if leader is None:
                leaderless = True
                continue
            node_id = self._source(state, leader)
            if len(state.chunks) >= MAX_CHUNKS or not state.has_position or _is_unchecked(state, leader):
                # A fetch that waits for others would keep this one waiting when its turn has come.
                held.add(node_id)
            else:
                by_node.setdefault(node_id, []).append((state, leader))
        for node_id, parts in by_node.items():
            if node_id not in held and node_id not in self._under_way:
                self._fetch_from(node_id, parts)
        if leaderless or self._cluster.is_stale:
            self._background_tasks.update_metadata(self._lacks_leaders)

    def _source(self, state: PartitionState, leader: Partition) -> int:
        """The leader, or the replica nearby that it has named (KIP-392)."""
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
        asked: _Asked = {}
        for state, leader in parts:
            topic_id = self._cluster.metadata.topics[state.where.topic].id
            epoch = leader.leader_epoch
            part = FetchPart(
                topic_id, state.fetch_offset, state.log_start_offset, self._partition_bytes, epoch
            )
            asked[state.where] = (state, part)
        self._ask(connection, asked)

    def _ask(self, connection: BrokerConnection, asked: _Asked) -> None:
        node_id = connection.node.id
        session = self._sessions.setdefault(node_id, FetchSession())
        has_ids = all(any(part.topic_id) for _, part in asked.values())
        version = connection.version_for(FETCH_KEY, None if has_ids else LAST_NAMED_VERSION)
        topics, forgotten = session.next({where: part for where, (_, part) in asked.items()})
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
        self._under_way.add(node_id)
        limit_ms = self._request_timeout_ms + self._max_wait_ms
        answered = partial(self._answered, node_id, session, asked)
        connection.tell(request, version, answered, limit_ms, in_place=True)

    def _answered(
        self,
        node_id: int,
        session: FetchSession,
        asked: _Asked,
        message: Message | None,
        error: Exception | None,
    ) -> None:
        self._under_way.discard(node_id)
        if not isinstance(message, FetchResponse):
            session.reset()
            self._cluster.metadata.expire()
            self._pause(node_id)
        elif message.error_code:
            session.reset()
            if message.error_code not in _SESSION_ERRORS:
                self._pause(node_id)
        else:
            session.answered(message.session_id)
            for topic in message.responses:
                name = topic.topic or session.name_of(topic.topic_id) or ""
                for told in topic.partitions:
                    found = asked.get(TopicPartition(name, told.partition_index))
                    if found is not None:
                        self._take_in(node_id, *found, told)
        self.fetch()

    def _take_in(
        self, node_id: int, state: PartitionState, part: FetchPart, told: FetchResponse.PartitionData
    ) -> None:
        if self._subscription.partitions.get(state.where) is not state or not state.has_position:
            return
        if state.fetch_offset != part.fetch_offset:
            # The user went elsewhere meanwhile.
            return
        if told.error_code:
            self._refused(node_id, state, part, told.error_code)
            return
        state.checked_epoch = max(state.checked_epoch, part.leader_epoch)
        state.high_watermark = told.high_watermark
        state.last_stable_offset = told.last_stable_offset
        state.log_start_offset = told.log_start_offset
        if told.preferred_read_replica != NO_NODE:
            state.preferred_replica = told.preferred_read_replica
        view = record_view(told.records)
        if not len(view):
            return
        aborted = None
        if self._committed_only:
            aborted = [
                AbortedTransaction(one.first_offset, one.producer_id)
                for one in told.aborted_transactions or ()
            ]
        chunk = CompletedFetch(state.where, self._kept(view), part.fetch_offset, aborted, self._check_crcs)
        state.fetch_offset = chunk.end_offset
        if not state.chunks:
            self._ready.append(state)
        state.chunks.append(chunk)
        self.tell()

    def _kept(self, view: memoryview) -> Buffer:
        """What an answer holds, in memory that is ours until it is used up; large pieces are used again,
        as memory that is new to the kernel costs more than the copy."""
        if len(view) <= LARGE_FRAME_BYTES:
            return bytes(view)
        kept = memoryview(self._buffers.take(len(view)))[: len(view)]
        kept[:] = view
        return kept

    def _refused(self, node_id: int, state: PartitionState, part: FetchPart, code: int) -> None:
        if state.preferred_replica != NO_NODE:
            # Whatever is wrong with the replica nearby: the leader knows better.
            state.preferred_replica = NO_NODE
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.chunks:
                # What was read ahead is still good; its end is met again, or has moved, when it is used up.
                state.fetch_offset = state.chunks[-1].end_offset
            else:
                self._reset(state, part.fetch_offset)
            return
        if code in _STALE:
            self._cluster.metadata.expire()
            self._pause(node_id)
            return
        error = error_for(code)
        if isinstance(error, AuthorizationError):
            error = type(error)(f"not authorized to read {state.where.topic}")
        self._errors.append(error)
        self._pause(node_id)
        self.tell()

    def _reset(self, state: PartitionState, offset: int) -> None:
        try:
            self._out_of_range(state, offset)
        except KafkaError as error:
            self._errors.append(error)
            self._pause_all()
        self.tell()

    # ---------------------------------------------------------------------------------- what takes some time

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
        # A replica nearby that is gone is no use.
        for state in self._subscription.partitions.values():
            if state.preferred_replica == node_id:
                state.preferred_replica = NO_NODE

    def _lacks_leaders(self) -> bool:
        leader_of = self._cluster.metadata.leader_of
        return any(leader_of(where) is None for where in self._subscription.partitions)

    async def close(self) -> None:
        self._is_closed = True
        self.tell()
        if self._retry is not None:
            self._retry.cancel()
        await self._background_tasks.close()


def _is_unchecked(state: PartitionState, leader: Partition) -> bool:
    """Whether it has yet to be found out that a new leader's log has what we have read (KIP-320)."""
    return state.offset_epoch != NO_EPOCH and leader.leader_epoch > state.checked_epoch
