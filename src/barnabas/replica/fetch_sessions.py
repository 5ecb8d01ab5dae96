"""Incremental fetch sessions (KIP-227): the partitions a client reads are told once, then only changes.

What lives here: sessions, their epochs, which partitions an answer must name, and who has to make room when
the cache is full.  What may not: reading records.

A session remembers for each partition what its client was last told; an answer leaves out a partition of
which there is nothing new.  Partitions that gave records go to the end of the session's order, so that those
behind them are served next time.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.runtime.clock import Clock
from barnabas.runtime.random import Random

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
MAX_SESSION_ID = 2**31 - 1
# A session unused for so long makes room for anyone, one younger than this only for followers.
EVICTION_NS = 120_000_000_000
FIRST_VERSION_WITH_TOPIC_IDS = 13
# Partitions in all sessions together; one that would exceed it is not kept, and its client names all again.
CACHED_PARTITIONS_MAX = 1_000_000

# A topic by its name up to version 12, by its id from version 13 on.
TopicKey = str | Uuid
PartitionKey = tuple[TopicKey, int]


def next_epoch(epoch: int) -> int:
    """After the last number comes 1: 0 means that a session begins."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class Told:
    """One partition of a session: what was asked of it last, and what its client knows."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchRequest.Partition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def take(self, answer: FetchResponse.PartitionData) -> bool:
        """Whether the answer has to name the partition; the client then knows it."""
        must = (
            bool(_has_records(answer))
            or answer.preferred_read_replica != -1
            or answer.diverging_epoch.epoch != -1
        )
        if answer.high_watermark != self.high_watermark:
            self.high_watermark = answer.high_watermark
            must = True
        if answer.log_start_offset != self.log_start_offset:
            self.log_start_offset = answer.log_start_offset
            must = True
        if answer.error_code:
            # So that the partition is named again when the error is over.
            self.high_watermark = -1
            must = True
        return must


def _has_records(answer: FetchResponse.PartitionData) -> int:
    records = answer.records
    if records is None:
        return 0
    return len(records) if isinstance(records, bytes | bytearray | memoryview) else records.length


class Session:
    """What one client reads."""

    __slots__ = ("created_ns", "epoch", "id", "last_used_ns", "partitions", "privileged", "uses_topic_ids")

    def __init__(self, session_id: int, *, privileged: bool, uses_topic_ids: bool, now_ns: int) -> None:
        self.id = session_id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ns = self.last_used_ns = now_ns
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[PartitionKey, Told] = {}

    def update(self, request: FetchRequest) -> None:
        """Take over what the request adds, changes and forgets."""
        by_id = self.uses_topic_ids
        for topic in request.topics:
            key = topic.topic_id if by_id else topic.topic
            for wanted in topic.partitions:
                known = self.partitions.get((key, wanted.partition))
                if known is None:
                    self.partitions[key, wanted.partition] = Told(wanted)
                else:
                    known.wanted = wanted
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                self.partitions.pop((key, index), None)


class Sessions:
    """The sessions of one broker, at most max.incremental.fetch.session.cache.slots."""

    def __init__(self, slots: int, clock: Clock, random: Random) -> None:
        self._slots = slots
        self._clock = clock
        self._random = random
        # In the order of their last use, the oldest first.
        self._sessions: dict[int, Session] = {}
        self.partitions = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def begin(self, request: FetchRequest, version: int) -> ErrorCode | Session | None:
        """The session that a request goes on with; None if it names all of its partitions itself."""
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
        self, session: Session, epoch: int, answers: list[tuple[PartitionKey, FetchResponse.PartitionData]]
    ) -> list[tuple[PartitionKey, FetchResponse.PartitionData]] | ErrorCode:
        """What the answer to the request with this epoch has to name."""
        if session.epoch != next_epoch(epoch):
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH  # the client has sent another request meanwhile
        named = []
        partitions = session.partitions
        for key, answer in answers:
            told = partitions.get(key)
            if told is not None and told.take(answer):
                named.append((key, answer))
                if _has_records(answer):
                    del partitions[key]
                    partitions[key] = told
        return named

    def create(
        self,
        request: FetchRequest,
        version: int,
        answers: list[tuple[PartitionKey, FetchResponse.PartitionData]],
        *,
        privileged: bool,
    ) -> int:
        """A session for the partitions of a full fetch; its id, 0 if there is no room for it."""
        now_ns = self._clock.monotonic_ns()
        if self.partitions + len(answers) > CACHED_PARTITIONS_MAX:
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict(privileged, len(answers), now_ns):
            return NO_SESSION
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        session = Session(self._new_id(), privileged=privileged, uses_topic_ids=by_id, now_ns=now_ns)
        session.update(request)
        for key, answer in answers:
            told = session.partitions.get(key)
            if told is not None:
                told.take(answer)
        self._sessions[session.id] = session
        self.partitions += len(session.partitions)
        return session.id

    def _new_id(self) -> int:
        while True:
            session_id = self._random.integer(1, MAX_SESSION_ID)
            if session_id not in self._sessions:
                return session_id

    def _evict(self, privileged: bool, size: int, now_ns: int) -> bool:
        """Make room for a new session, if there is one that is worth less.

        That is one long unused; or one that may be evicted and has fewer partitions.  Followers' sessions are
        worth more than consumers', and may push out young ones of consumers too.
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


def _worth(session: Session) -> tuple[bool, int, int]:
    return session.privileged, len(session.partitions), session.id
