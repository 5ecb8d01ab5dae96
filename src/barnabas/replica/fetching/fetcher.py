"""A fetcher: what a broker fetches from one leader, as a state machine without IO.

Contains which request comes next, what a response means for each partition, and when to try again.  Sockets,
truncation of logs and delayed operations of clients belong in the broker; the end of a log is compared with
the leader's in truncation.py.

One request is in flight at a time.  The driver asks for the `next_request`, passes the response to `received`
and each of the returned partitions to `process`, and carries out the truncations that result.  A response
counts for a partition only if that still is where it was when the request was sent: leadership may have
changed meanwhile, in either direction (KAFKA-7395).
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator
from itertools import count

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.batch.view import Buffer, CorruptBatch
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.primitives import record_view
from barnabas.replica.fetching.fetch_session import (
    FetchPosition,
    FollowerSession,
    PartitionKey,
)
from barnabas.replica.fetching.fetch_state import (
    UNSENT,
    FetchState,
    FollowedPartition,
    FollowerLog,
    Phase,
    Truncation,
)
from barnabas.replica.fetching.outcomes import NOTHING, SESSION_ERRORS, TRANSIENT, Fetched, Outcome, log_waits
from barnabas.replica.fetching.requests import FetchOptions, fetch_request, offsets_request
from barnabas.replica.fetching.truncation import truncation_point
from barnabas.storage.failure import DirectoryFull, StorageFailure
from barnabas.storage.log.appends import GapNotNoted, UnexpectedAppendOffset

logger = logging.getLogger(__name__)

# The first retry after an error that the next metadata will resolve; each further one waits twice as long, up
# to replica.fetch.backoff.ms.
FIRST_RETRY_MS = 10
MAX_DOUBLINGS = 10


class Fetcher:
    """The partitions that one broker follows from one leader, or a share of them."""

    def __init__(self, broker_id: int, options: FetchOptions) -> None:
        self._broker_id = broker_id
        self.options = options
        self.session = FollowerSession()
        self.states: dict[PartitionKey, FetchState] = {}
        # Partitions whose place in the next request may have changed.  A dict, for its order.
        self._changed: dict[PartitionKey, None] = {}
        # (time, tie-breaking number, state) of partitions that are not fetched before that time.
        self._delayed: list[tuple[int, int, FetchState]] = []
        self._numbers = count()
        # Requests that failed in a row, and the time of the next one.
        self._failures = 0
        self._retry_ns = 0

    def __len__(self) -> int:
        return len(self.states)

    # Partitions

    def add(self, partition: FollowedPartition) -> Truncation | None:
        """Fetch the partition in its current leader epoch, from the end of its log."""
        known = self.states.get((partition.topic_id, partition.index))
        if known is not None and known.partition is partition and known.is_current:
            return None
        state = FetchState(partition)
        self.states[state.key] = state
        self._changed[state.key] = None
        log = partition.log
        if log is not None and log.latest_epoch is None and log.high_watermark < log.end_offset:
            # Batches of an old format have no epochs; all that is known of them is what was committed.
            return self._truncate(state, log.high_watermark)
        return None

    def remove(self, key: PartitionKey) -> FetchState | None:
        """Stop fetching a partition; what is under way for it is ignored."""
        state = self.states.pop(key, None)
        if state is not None:
            self._changed[key] = None
        return state

    # Requests

    def next_request(self, now_ns: int) -> FetchRequest | ListOffsetsRequest | None:
        """The next request; None if there is nothing to request before `wake_ns`.

        A fetch is complete once it is `identified`.
        """
        if now_ns < self._retry_ns:
            return None
        self._end_delays(now_ns)
        resetting = self._resetting()
        if resetting:
            return offsets_request(resetting, self._broker_id)
        session = self.session
        if session.is_full:
            positions = list(self._ready())
            forgotten: list[PartitionKey] = []
            session.sent = dict(positions)
            self._changed = {}
        else:
            positions, forgotten = self._changes()
        if not session.sent and not forgotten:
            return None
        for key, position in positions:
            self.states[key].requested_offset = position.offset
        return fetch_request(session, positions, forgotten, self.options, self._max_wait_ms(now_ns))

    def _max_wait_ms(self, now_ns: int) -> int:
        """How long the leader may wait for records; not longer than a delayed partition has to."""
        if not self.session.sent or self._changed:
            return 0
        wait_ms = self.options.max_wait_ms
        if self._delayed:
            wait_ms = min(wait_ms, max(1, (self._delayed[0][0] - now_ns) // NS_PER_MS))
        return wait_ms

    def _is_ready(self, state: FetchState) -> bool:
        return state.phase is Phase.FETCHING and not state.ready_ns and state.is_current

    def _ready(self) -> Iterator[tuple[PartitionKey, FetchPosition]]:
        for key, state in self.states.items():
            if self._is_ready(state):
                yield key, state.position()

    def _changes(self) -> tuple[list[tuple[PartitionKey, FetchPosition]], list[PartitionKey]]:
        """What differs from the last request: partitions with another position, and those to forget.

        A partition that starts again is forgotten first and named by the request after that: otherwise the
        leader would take what it has sent before as known, and leave out an unchanged high watermark.
        """
        positions: list[tuple[PartitionKey, FetchPosition]] = []
        forgotten: list[PartitionKey] = []
        postponed: dict[PartitionKey, None] = {}
        sent = self.session.sent
        for key in self._changed:
            state = self.states.get(key)
            if (
                state is None
                or not self._is_ready(state)
                or (key in sent and state.requested_offset == UNSENT)
            ):
                if sent.pop(key, None) is not None:
                    forgotten.append(key)
                if state is not None and self._is_ready(state):
                    postponed[key] = None
                continue
            position = state.position()
            if sent.get(key) != position:
                positions.append((key, position))
                sent[key] = position
        self._changed = postponed
        return positions, forgotten

    # Delays

    def wake_ns(self, now_ns: int) -> int | None:
        """When to call `next_request` again, if it has returned None; None: not before something happens."""
        if now_ns < self._retry_ns:
            return self._retry_ns
        return self._delayed[0][0] if self._delayed else None

    def failed(self, now_ns: int) -> int:
        """No response: the leader's session is unknown.  Returns the delay of the next request in ms."""
        self.session.reset()
        for state in self.states.values():
            state.requested_offset = UNSENT
        delay_ms = self._backoff_ms(self._failures)
        self._failures += 1
        self._retry_ns = now_ns + delay_ms * NS_PER_MS
        return delay_ms

    def retry_now(self) -> None:
        """The leader is reachable again, or has another address."""
        self._failures = 0
        self._retry_ns = 0

    def _backoff_ms(self, failures: int) -> int:
        return min(FIRST_RETRY_MS << min(failures, MAX_DOUBLINGS), self.options.backoff_ms)

    def _delay(self, state: FetchState, now_ns: int, delay_ms: int) -> None:
        state.failures += 1
        state.phase = Phase.FETCHING
        state.requested_offset = UNSENT
        state.ready_ns = now_ns + max(delay_ms, 1) * NS_PER_MS
        heapq.heappush(self._delayed, (state.ready_ns, next(self._numbers), state))
        self._changed[state.key] = None

    def throttle(self, state: FetchState, now_ns: int, delay_ms: int) -> None:
        """The quota of throttled replicas is exceeded: leave this one out of the next requests (KIP-73)."""
        if self.states.get(state.key) is state and state.phase is Phase.FETCHING:
            self._delay(state, now_ns, delay_ms)
            state.failures = 0

    def _delay_shortly(self, state: FetchState, now_ns: int) -> None:
        self._delay(state, now_ns, self._backoff_ms(state.failures))

    def _end_delays(self, now_ns: int) -> None:
        delayed = self._delayed
        while delayed and delayed[0][0] <= now_ns:
            ready_ns, _, state = heapq.heappop(delayed)
            if state.ready_ns == ready_ns and self.states.get(state.key) is state:
                state.ready_ns = 0
                self._changed[state.key] = None

    # Responses

    def received(self, response: FetchResponse, now_ns: int) -> list[Fetched]:
        """The partitions of a response that are to be processed, in order."""
        if response.error_code:
            error = ErrorCode(response.error_code)
            logger.info("a fetch was refused as a whole: %s", error.name)
            if error in SESSION_ERRORS:
                self.session.refused(error)
                self._failures = 0
            else:
                self.failed(now_ns)
            return []
        self._failures = 0
        fetched = []
        refused: dict[int, list[FetchState]] = {}
        sent = self.session.sent
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                state = self.states.get(key)
                position = sent.get(key)
                # A state of another epoch than the session's is newer than the response.
                if state is not None and position is not None and position.leader_epoch == state.leader_epoch:
                    fetched.append(Fetched(state, data))
                    if data.error_code and not state.failures and self._is_awaited(state):
                        refused.setdefault(data.error_code, []).append(state)
        self.session.accepted(response.session_id)
        log_waits(refused)
        return fetched

    def process(self, fetched: Fetched, now_ns: int) -> Outcome:
        """Apply one partition's data to its log.  Raises StorageFailure if its directory has failed."""
        state, data = fetched
        log = state.partition.log
        if log is None or not self._is_awaited(state):
            return NOTHING
        error = ErrorCode(data.error_code) if data.error_code else ErrorCode.NONE
        if error is not ErrorCode.NONE:
            self._refused(state, error, now_ns)
            return NOTHING
        if data.diverging_epoch.epoch >= 0:
            # Before the offsets of the same response are taken over, which are for the log without what
            # diverges (KAFKA-14704).
            return self._diverged(state, log, data.diverging_epoch)
        records = record_view(data.records)
        try:
            return self._take_over(state, log, records, data.high_watermark, data.log_start_offset, now_ns)
        except GapNotNoted:
            self._wait_for(state, Phase.NOTING_GAPS)
            return Outcome(must_note_gaps=True)
        except UnexpectedAppendOffset as unexpected:
            return self._begin_earlier(state, log, records, unexpected, data.log_start_offset, now_ns)
        except StorageFailure as failure:
            self._not_stored(state, failure)
            raise
        except CorruptBatch as damage:
            # It may be damaged on its way, or be written at this moment: a retry may get it whole.
            self._not_appended(state, f"the leader has sent a damaged batch: {damage.message}", now_ns)
        except KafkaError as refusal:
            self._not_appended(state, f"the leader's batches cannot be appended: {refusal}", now_ns)
        return NOTHING

    def _not_appended(self, state: FetchState, reason: str, now_ns: int) -> None:
        logger.error("%r: %s; retrying", state, reason)
        state.restart()  # some of the batches may have been appended
        self._delay(state, now_ns, self.options.backoff_ms)

    def _is_awaited(self, state: FetchState) -> bool:
        return (
            self.states.get(state.key) is state
            and state.phase is Phase.FETCHING
            and not state.ready_ns
            and state.requested_offset == state.offset
            and state.is_current
        )

    def _take_over(
        self,
        state: FetchState,
        log: FollowerLog,
        records: Buffer,
        high_watermark: int,
        log_start_offset: int,
        now_ns: int,
    ) -> Outcome:
        size = 0
        if len(records):
            if state.offset != log.end_offset:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"the log ends at {log.end_offset}, but {state.offset} was fetched",
                )
            size = state.append(log, records)
            if not size:
                # Batches of a later leader epoch than ours: the metadata will bring it.
                self._delay_shortly(state, now_ns)
                return NOTHING
        state.failures = 0
        advanced = state.follow_watermarks(log, high_watermark, log_start_offset)
        self._changed[state.key] = None
        must_flush = bool(size) and state.partition.awaits_flush
        if must_flush:
            state.phase = Phase.FLUSHING
        return Outcome(size, advanced, must_flush)

    # Errors

    def postpone(self, state: FetchState, now_ns: int) -> None:
        """Processing has failed by a fault of this broker: start again at the end of the log, later."""
        if self.states.get(state.key) is state:
            state.restart()
            self._delay(state, now_ns, self.options.backoff_ms)

    def _refused(self, state: FetchState, error: ErrorCode, now_ns: int) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            logger.warning("%r: the leader does not have that offset", state)
            self._wait_for(state, Phase.LATEST)
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            # This broker's metadata is older than the leader's; fetching continues when it has caught up.
            self._wait_for(state, Phase.FENCED)
        elif error in TRANSIENT:
            self._delay_shortly(state, now_ns)
        else:
            logger.error("%r: %s from the leader; retrying", state, error.name)
            self._delay(state, now_ns, self.options.backoff_ms)

    def _wait_for(self, state: FetchState, phase: Phase) -> None:
        state.phase = phase
        state.requested_offset = UNSENT
        self._changed[state.key] = None

    # Truncation

    def _diverged(self, state: FetchState, log: FollowerLog, end: FetchResponse.EpochEndOffset) -> Outcome:
        point = truncation_point(log, end.epoch, end.end_offset)
        logger.info(
            "%r: the leader's log ends at %d in epoch %d; truncating to %d%s",
            state,
            end.end_offset,
            end.epoch,
            point.offset,
            "" if point.is_final else " and asking again",
        )
        if point.offset < log.high_watermark:
            logger.warning(
                "%r: truncating to %d, below the high watermark %d", state, point.offset, log.high_watermark
            )
        return Outcome(truncation=self._truncate(state, point.offset))

    def _truncate(self, state: FetchState, offset: int, log_start_offset: int | None = None) -> Truncation:
        self._wait_for(state, Phase.TRUNCATING)
        return Truncation(state, offset, log_start_offset)

    def _begin_earlier(
        self,
        state: FetchState,
        log: FollowerLog,
        records: Buffer,
        unexpected: UnexpectedAppendOffset,
        leader_start_offset: int,
        now_ns: int,
    ) -> Outcome:
        """The leader's log start lies within a batch: an empty log begins with that batch's first offset.

        So does the end of a log that was truncated to the leader's log start, where what diverges begins.
        After an unclean election its high watermark may be that of what is lost; all that it has was deleted
        by the leader then.  Apache Kafka gives such a replica up.
        """
        first = unexpected.first_offset
        is_empty = log.end_offset == log.log_start_offset
        is_uncommitted = first >= log.high_watermark or log.end_offset <= leader_start_offset
        if first < log.end_offset <= unexpected.last_offset and (is_empty or is_uncommitted):
            state.undone = bytes(records)
            truncation = self._truncate(state, first, log.log_start_offset if is_empty else None)
            return Outcome(truncation=truncation)
        self._not_appended(state, str(unexpected), now_ns)
        return NOTHING

    def truncated(self, state: FetchState, now_ns: int) -> Outcome:
        """The driver has carried out a truncation.  Raises StorageFailure."""
        if self.states.get(state.key) is not state or state.phase is not Phase.TRUNCATING:
            return NOTHING
        records, state.undone = state.undone, None
        before = (state.offset, state.last_epoch)
        state.restart()
        self._changed[state.key] = None
        log = state.partition.log
        if records is None or log is None:
            if (state.offset, state.last_epoch) == before:
                # The leader contradicts itself: it will be asked the same again.
                self._delay_shortly(state, now_ns)
            return NOTHING
        try:
            return self._take_over(state, log, records, -1, -1, now_ns)
        except StorageFailure as failure:
            self._not_stored(state, failure)
            raise
        except KafkaError as refusal:
            self._not_appended(state, str(refusal), now_ns)
            return NOTHING

    def gaps_noted(self, state: FetchState) -> None:
        """The driver has noted that offsets may be missing in the log: the batches are fetched again."""
        self._resume(state, Phase.NOTING_GAPS)

    def _not_stored(self, state: FetchState, failure: StorageFailure) -> None:
        self._changed[state.key] = None
        if isinstance(failure, DirectoryFull):
            self.no_room(state)

    def no_room(self, state: FetchState) -> None:
        """There is no space for what the leader sent: the partition waits for it, and so leaves the ISR."""
        if self.states.get(state.key) is state:
            self._wait_for(state, Phase.NO_ROOM)

    def has_room(self, key: PartitionKey) -> bool:
        """The partition's directory has space again; returns whether it is fetched again."""
        state = self.states.get(key)
        return state is not None and self._resume(state, Phase.NO_ROOM)

    def _resume(self, state: FetchState, phase: Phase) -> bool:
        if self.states.get(state.key) is not state or state.phase is not phase:
            return False
        state.restart()
        self._changed[state.key] = None
        return True

    def flushed(self, key: PartitionKey) -> bool:
        """A partition's log was flushed; returns whether it is fetched again."""
        state = self.states.get(key)
        if state is None or state.phase is not Phase.FLUSHING or state.partition.awaits_flush:
            return False
        state.phase = Phase.FETCHING
        self._changed[key] = None
        return True

    # An offset that the leader does not have

    def _resetting(self) -> list[FetchState]:
        """The partitions that need the end of the leader's log, or then its start."""
        states = (self.states.get(key) for key in self._changed)
        return [state for state in states if state is not None and _is_resetting(state)]

    def offsets_received(self, response: ListOffsetsResponse, now_ns: int) -> list[Truncation]:
        """The leader's offsets have arrived; returns the truncations that they lead to."""
        results = {
            (topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        self._failures = 0
        truncations = []
        for state in self._resetting():
            result = results.get((state.partition.topic, state.partition.index))
            log = state.partition.log
            if result is None or log is None:
                self._delay_shortly(state, now_ns)
                continue
            truncation = self._take_offset(state, log, result, now_ns)
            if truncation is not None:
                truncations.append(truncation)
        return truncations

    def _take_offset(
        self,
        state: FetchState,
        log: FollowerLog,
        result: ListOffsetsResponse.PartitionResponse,
        now_ns: int,
    ) -> Truncation | None:
        if result.error_code or result.offset < 0:
            error = ErrorCode(result.error_code)
            if error is ErrorCode.FENCED_LEADER_EPOCH:
                self._wait_for(state, Phase.FENCED)
            else:
                logger.info("%r: %s instead of an offset; retrying", state, error.name)
                self._delay_shortly(state, now_ns)
            return None
        if state.phase is Phase.LATEST:
            if result.offset < log.end_offset:
                logger.warning("%r: truncating to the end of the leader's log, %d", state, result.offset)
                return self._truncate(state, result.offset)
            self._wait_for(state, Phase.EARLIEST)
            return None
        if result.offset > log.end_offset:
            logger.warning(
                "%r: all records go, and the log begins again at the leader's log start, %d",
                state,
                result.offset,
            )
            return self._truncate(state, result.offset, result.offset)
        state.restart()
        self._delay_shortly(state, now_ns)
        return None


def _is_resetting(state: FetchState) -> bool:
    return state.phase in (Phase.LATEST, Phase.EARLIEST) and state.is_current
