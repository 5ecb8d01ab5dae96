"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only changes are sent.

Contains sessions, their epochs, which partitions a response must include, and eviction when the cache is
full. Reading records belongs in the broker.

A session keeps for each partition what was last sent to its client; a response omits a partition without
changes.  Partitions that returned records move to the end of the session's order, so that the others are
served first next time.

A follower may have thousands of partitions in its session, few of them with news.  Its session knows which:
those that a request has named, and those that have changed since, which their partition notes.  A fetch looks
at no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import CONSUMER_REPLICA, Uuid
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.runtime.clock import Clock
from barnabas.runtime.random import Random

if TYPE_CHECKING:
    from barnabas.replica.partition import Partition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
MAX_SESSION_ID = 2**31 - 1
# A session unused for this long can be evicted by any other, a younger one only by followers.
EVICTION_NS = 120_000_000_000
FIRST_VERSION_WITH_TOPIC_IDS = 13
# Partitions in all sessions together; a session that would exceed it is not cached, and its client sends full
# fetches.
CACHED_PARTITIONS_MAX = 1_000_000
# How often all partitions of a follower's session are compared with what it knows: of a log start that
# retention moves nobody is told.
SWEEP_NS = 1_000_000_000

# A topic by its name up to version 12, by its id from version 13 on.
TopicKey = str | Uuid
PartitionKey = tuple[TopicKey, int]


def next_epoch(epoch: int) -> int:
    """1 follows the last number: 0 means that a session begins."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class CachedPartition:
    """One partition of a session: its latest fetch parameters, and what its client knows."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "session", "source", "wanted")

    def __init__(self, session: Session, key: PartitionKey, wanted: FetchRequest.Partition) -> None:
        self.session = session
        self.key = key
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1
        # The partition that notes its news here; None until it was looked at.
        self.source: Partition[Any] | None = None

    def watch(self, source: Partition[Any]) -> None:
        """Have news of this partition noted."""
        if self.source is not source:
            self.unwatch()
            self.source = source
            source.watchers = (*source.watchers, self)

    def unwatch(self) -> None:
        source = self.source
        if source is not None:
            self.source = None
            source.watchers = tuple(one for one in source.watchers if one is not self)

    @property
    def has_news(self) -> bool:
        """Whether the follower does not know all of the partition, or the leader has to look at it again.

        A follower outside the ISR may join it at each of its fetches.
        """
        source = self.source
        log = None if source is None else source.log
        return (
            source is None
            or log is None
            or log.end_offset != self.wanted.fetch_offset
            or log.high_watermark != self.high_watermark
            or log.log_start_offset != self.log_start_offset
            or not source.is_leader
            or source.leader_epoch != self.wanted.current_leader_epoch
            or self.session.replica_id not in source.isr
        )

    def record_response(self, response: FetchResponse.PartitionData) -> bool:
        """Whether the response must include the partition; the client then knows its state."""
        must = (
            bool(_has_records(response))
            or response.preferred_read_replica != -1
            or response.diverging_epoch.epoch != -1
        )
        if response.high_watermark != self.high_watermark:
            self.high_watermark = response.high_watermark
            must = True
        if response.log_start_offset != self.log_start_offset:
            self.log_start_offset = response.log_start_offset
            must = True
        if response.error_code:
            # So that the partition is included again when the error is over.
            self.high_watermark = -1
            must = True
        return must


def _has_records(response: FetchResponse.PartitionData) -> int:
    records = response.records
    if records is None:
        return 0
    return len(records) if isinstance(records, bytes | bytearray | memoryview) else records.length


class Session:
    """The partitions that one client fetches."""

    __slots__ = (
        "created_ns",
        "epoch",
        "id",
        "last_used_ns",
        "news",
        "partitions",
        "replica_id",
        "swept_ns",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, *, replica_id: int, uses_topic_ids: bool, now_ns: int) -> None:
        self.id = session_id
        # The follower whose session this is, or -1.
        self.replica_id = replica_id
        self.uses_topic_ids = uses_topic_ids
        self.created_ns = self.last_used_ns = self.swept_ns = now_ns
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        # Of a follower's session: the partitions that its next fetch has to look at, in this order.
        self.news: dict[PartitionKey, CachedPartition] = {}

    @property
    def privileged(self) -> bool:
        return self.replica_id >= 0

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget partitions as the request says."""
        by_id = self.uses_topic_ids
        for topic in request.topics:
            name = topic.topic_id if by_id else topic.topic
            for wanted in topic.partitions:
                key = (name, wanted.partition)
                known = self.partitions.get(key)
                if known is None:
                    known = self.partitions[key] = CachedPartition(self, key, wanted)
                else:
                    known.wanted = wanted
                if self.privileged:
                    # Behind the others, which were not served by the last response.
                    self.news.pop(key, None)
                    self.news[key] = known
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                gone = self.partitions.pop((name, index), None)
                if gone is not None:
                    gone.unwatch()
                    self.news.pop(gone.key, None)

    def sweep(self) -> None:
        """Find what no partition has noted; called by each fetch of a follower, done once a second."""
        if self.last_used_ns - self.swept_ns >= SWEEP_NS:
            self.swept_ns = self.last_used_ns
            for key, cached in self.partitions.items():
                if cached.has_news and key not in self.news:
                    self.news[key] = cached

    def settle(self) -> None:
        """A response was sent: what has no news any more need not be looked at."""
        for key, cached in list(self.news.items()):
            if not cached.has_news:
                del self.news[key]

    def close(self) -> None:
        for cached in self.partitions.values():
            cached.unwatch()


class Sessions:
    """The sessions of one broker, at most max.incremental.fetch.session.cache.slots."""

    def __init__(self, slots: int, clock: Clock, random: Random) -> None:
        self._slots = slots
        self._clock = clock
        self._random = random
        # In order of last use, the oldest first.
        self._sessions: dict[int, Session] = {}
        self.partitions = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def begin(self, request: FetchRequest, version: int) -> ErrorCode | Session | None:
        """The session that a request continues; None if it is a full fetch."""
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id in self._sessions:
                self._remove(self._sessions[session_id])
            return None
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != (version >= FIRST_VERSION_WITH_TOPIC_IDS):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if request.topics or request.forgotten_topics_data:
            before = len(session.partitions)
            session.update(request)
            self.partitions += len(session.partitions) - before
            if not session.partitions:
                self._remove(session)
                return None
            if self.partitions > CACHED_PARTITIONS_MAX:
                self._remove(session)
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._touch(session)
        session.epoch = next_epoch(epoch)
        return session

    def _touch(self, session: Session) -> None:
        session.last_used_ns = self._clock.monotonic_ns()
        del self._sessions[session.id]
        self._sessions[session.id] = session

    def filter(
        self, session: Session, epoch: int, responses: list[tuple[PartitionKey, FetchResponse.PartitionData]]
    ) -> list[tuple[PartitionKey, FetchResponse.PartitionData]] | ErrorCode:
        """The partitions that the response to the request with this epoch must include."""
        if session.epoch != next_epoch(epoch):
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH  # the client has sent another request meanwhile
        named = []
        partitions = session.partitions
        for key, response in responses:
            known = partitions.get(key)
            if known is not None and known.record_response(response):
                named.append((key, response))
                if _has_records(response):
                    del partitions[key]
                    partitions[key] = known
        return named

    def create(
        self,
        request: FetchRequest,
        version: int,
        responses: list[tuple[PartitionKey, FetchResponse.PartitionData]],
        *,
        replica_id: int = CONSUMER_REPLICA,
    ) -> int:
        """Create a session for the partitions of a full fetch; returns its id, or 0 if the cache is full."""
        privileged = replica_id >= 0
        now_ns = self._clock.monotonic_ns()
        if self.partitions + len(responses) > CACHED_PARTITIONS_MAX:
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict(privileged, len(responses), now_ns):
            return NO_SESSION
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        session = Session(self._new_id(), replica_id=replica_id, uses_topic_ids=by_id, now_ns=now_ns)
        session.update(request)
        for key, response in responses:
            known = session.partitions.get(key)
            if known is not None:
                known.record_response(response)
        self._sessions[session.id] = session
        self.partitions += len(session.partitions)
        return session.id

    def _new_id(self) -> int:
        while True:
            session_id = self._random.integer(1, MAX_SESSION_ID)
            if session_id not in self._sessions:
                return session_id

    def _evict(self, privileged: bool, size: int, now_ns: int) -> bool:
        """Evict a session for a new one, if there is one of lower priority.

        That is a session unused for long, or an evictable one with fewer partitions.  Followers' sessions
        have priority over consumers', and may evict young sessions of consumers too.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ns - oldest.last_used_ns > EVICTION_NS:
            return self._drop(oldest)
        candidates = [
            session
            for session in self._sessions.values()
            if session.last_used_ns - session.created_ns > EVICTION_NS
            or (privileged and not session.privileged)
        ]
        if not candidates:
            return False
        weakest = min(candidates, key=_worth)
        if (privileged, size, 0) < _worth(weakest):
            return False
        return self._drop(weakest)

    def _drop(self, session: Session) -> bool:
        self._remove(session)
        self.evictions += 1
        return True

    def _remove(self, session: Session) -> None:
        del self._sessions[session.id]
        self.partitions -= len(session.partitions)
        session.close()


def _worth(session: Session) -> tuple[bool, int, int]:
    return session.privileged, len(session.partitions), session.id
