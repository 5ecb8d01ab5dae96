"""Replicas of one partition with real logs, and a leader that serves fetches by the leader's rules."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.replica.fetch_sessions import INITIAL_EPOCH, Sessions
from barnabas.replica.fetching.fetch_state import FetchState, Truncation
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.replica.fetching.outcomes import Outcome
from barnabas.replica.fetching.requests import FetchOptions
from barnabas.replica.partition import Partition, Rules
from barnabas.runtime.random import SeededRandom
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from tests.storage.logs import SMALL, HandClock, batch, open_log, read_all

TOPIC = "orders"
TOPIC_ID = Uuid(bytes(15) + b"\x07")
OTHER_ID = Uuid(bytes(15) + b"\x08")
MS = 1_000_000
VERSION = 18
OPTIONS = FetchOptions(max_wait_ms=500, backoff_ms=1_000)


def rules(broker_id: int) -> Rules:
    return Rules(broker_id, 10_000 * MS, lambda broker, epoch: True, lambda broker: True)


def state_of(leader: int, epoch: int, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(replicas, (TOPIC_ID,) * len(replicas), replicas, leader, epoch, epoch)


class Replica:
    """One broker with its log of the partition."""

    def __init__(self, broker_id: int, *, options: LogOptions = SMALL, index: int = 0) -> None:
        self.id = broker_id
        self.clock = HandClock()
        self.log = open_log(options=options, folder=f"/data/{TOPIC}-{index}")
        self.partition: Partition[Log] = Partition(TOPIC, index, TOPIC_ID, rules(broker_id))
        self.sessions = Sessions(10, self.clock, SeededRandom(broker_id))
        # A fetcher for each leader, and the one that the partition has now.
        self.fetchers: dict[int, Fetcher] = {}
        self.fetcher = Fetcher(broker_id, OPTIONS)
        self.replicas: tuple[int, ...] = (1, 2)
        # Sent instead of what the leader would answer.
        self.error = ErrorCode.NONE

    def lead(self, epoch: int) -> None:
        self.fetcher.remove((TOPIC_ID, self.partition.index))
        self.partition.lead(state_of(self.id, epoch, self.replicas), self.log, self.clock.monotonic_ns())

    def follow(self, leader: int, epoch: int) -> None:
        self.partition.follow(state_of(leader, epoch, self.replicas), self.log)
        fetcher = self.fetchers.setdefault(leader, Fetcher(self.id, OPTIONS))
        if fetcher is not self.fetcher:
            self.fetcher.remove((TOPIC_ID, self.partition.index))
            self.fetcher = fetcher
        truncation = self.fetcher.add(self.partition)
        if truncation is not None:
            truncate(truncation)
            self.fetcher.truncated(truncation.state, self.now_ns)

    def append(self, *counts: int) -> None:
        for count in counts:
            self.log.append_as_leader(batch(count), self.partition.leader_epoch)
        self.partition.advance(self.now_ns)

    @property
    def now_ns(self) -> int:
        return self.clock.monotonic_ns()

    @property
    def state(self) -> FetchState:
        return self.fetcher.states[TOPIC_ID, self.partition.index]

    @property
    def content(self) -> bytes:
        return b"".join(one.copy() for one in read_all(self.log))

    # Serving, as the leader

    def serve(self, request: FetchRequest, follower: int = 2) -> FetchResponse:
        session = self.sessions.begin(request, VERSION)
        if isinstance(session, ErrorCode):
            return FetchResponse(throttle_time_ms=0, error_code=session, responses=[])
        if session is None:
            wanted = [
                ((one.topic_id, part.partition), part) for one in request.topics for part in one.partitions
            ]
        else:
            wanted = [(key, cached.wanted) for key, cached in session.partitions.items()]  # type: ignore[misc]
        answers = [(key, self._read(part, follower)) for key, part in wanted]
        response = FetchResponse(throttle_time_ms=0, responses=[])
        if session is not None:
            response.session_id = session.id
            named = self.sessions.filter(session, request.session_epoch, answers)  # type: ignore[arg-type]
            assert not isinstance(named, ErrorCode)
            answers = named  # type: ignore[assignment]
        elif request.session_epoch == INITIAL_EPOCH:
            response.session_id = self.sessions.create(request, VERSION, answers, replica_id=2)  # type: ignore[arg-type]
        for (topic_id, _), data in answers:
            response.responses.append(
                FetchResponse.FetchableTopicResponse(topic_id=topic_id, partitions=[data])
            )
        return response

    def _read(self, wanted: FetchRequest.Partition, follower: int) -> FetchResponse.PartitionData:
        partition, log = self.partition, self.log
        if self.error:
            return answer(wanted.partition, error=self.error)
        if wanted.current_leader_epoch < partition.leader_epoch:
            return answer(wanted.partition, error=ErrorCode.FENCED_LEADER_EPOCH)
        if wanted.current_leader_epoch > partition.leader_epoch:
            return answer(wanted.partition, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not partition.is_leader:
            return answer(wanted.partition, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if wanted.last_fetched_epoch != -1:
            end = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if wanted.fetch_offset < log.log_start_offset:
                return answer(wanted.partition, error=ErrorCode.OFFSET_OUT_OF_RANGE)
            if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
                return answer(wanted.partition, log=log, diverging=(end.epoch, end.end_offset))
        if not log.log_start_offset <= wanted.fetch_offset <= log.end_offset:
            return answer(wanted.partition, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        partition.follower_fetched(
            partition.follower(follower, knows_epoch=True),
            wanted.fetch_offset,
            log_start_offset=wanted.log_start_offset,
            broker_epoch=1,
            now_ns=self.now_ns,
        )
        result = log.read(wanted.fetch_offset, wanted.partition_max_bytes, upper_bound=log.end_offset)
        return answer(wanted.partition, log=log, records=b"" if result.slice is None else result.slice.read())

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                offset = self.log.end_offset if one.timestamp == -1 else self.log.log_start_offset
                partitions.append(
                    ListOffsetsResponse.PartitionResponse(
                        partition_index=one.partition_index,
                        error_code=self.error,
                        offset=-1 if self.error else offset,
                    )
                )
            topics.append(ListOffsetsResponse.TopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    # Fetching, as a follower

    @property
    def is_idle(self) -> bool:
        """Whether nothing is fetched now."""
        request = self.fetcher.next_request(self.now_ns)
        return request is None or (isinstance(request, FetchRequest) and not self.fetcher.session.sent)

    def request(self) -> FetchRequest:
        request = self.fetcher.next_request(self.now_ns)
        assert isinstance(request, FetchRequest), request
        return request

    def take(self, response: FetchResponse) -> list[Outcome]:
        """Process a response, and carry out its truncations at once."""
        outcomes = []
        for fetched in self.fetcher.received(response, self.now_ns):
            outcome = self.fetcher.process(fetched, self.now_ns)
            if outcome.truncation is not None:
                self._truncate([outcome.truncation])
            outcomes.append(outcome)
        return outcomes

    def _truncate(self, truncations: Iterable[Truncation]) -> None:
        for truncation in truncations:
            truncate(truncation)
            self.fetcher.truncated(truncation.state, self.now_ns)

    def fetch_from(self, leader: Replica) -> list[Outcome]:
        """One round with the leader; a request for offsets counts as one."""
        request = self.fetcher.next_request(self.now_ns)
        if isinstance(request, FetchRequest):
            return self.take(leader.serve(request, self.id))
        if isinstance(request, ListOffsetsRequest):
            response = leader.list_offsets(request)
            self._truncate(self.fetcher.offsets_received(response, self.now_ns))
            return []
        assert request is None
        wake_ns = self.fetcher.wake_ns(self.now_ns)
        assert wake_ns is not None, "nothing to fetch"
        self.clock.now_ms = -(-wake_ns // MS)
        return []

    def catch_up_with(self, leader: Replica, rounds: int = 20) -> None:
        """Fetch until both logs end at the same offset and the follower knows the high watermark."""
        for _ in range(rounds):
            self.fetch_from(leader)
            if self.content == leader.content and self.log.high_watermark == leader.log.high_watermark:
                return
        raise AssertionError(f"{self.log} did not catch up with {leader.log}")


def settle(leader: Replica, *followers: Replica) -> None:
    """Replicate everything, until all know that it is committed."""
    for _ in range(20):
        for follower in followers:
            follower.fetch_from(leader)
        if all(one.log.high_watermark == leader.log.end_offset for one in (leader, *followers)):
            return
    raise AssertionError(f"{followers} did not catch up with {leader}")


def truncate(truncation: Truncation) -> None:
    """What the driver does."""
    log = truncation.state.partition.log
    assert isinstance(log, Log)
    if truncation.log_start_offset is None:
        log.truncate_to(truncation.offset)
    else:
        log.truncate_fully_to(truncation.offset, log_start_offset=truncation.log_start_offset)


def answer(
    index: int = 0,
    *,
    error: ErrorCode = ErrorCode.NONE,
    log: Log | None = None,
    records: bytes = b"",
    diverging: tuple[int, int] | None = None,
) -> FetchResponse.PartitionData:
    data = FetchResponse.PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1 if log is None else log.high_watermark,
        log_start_offset=-1 if log is None else log.log_start_offset,
        aborted_transactions=None,
        records=records,
    )
    if diverging is not None:
        data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return data


def response_of(
    *partitions: FetchResponse.PartitionData, session_id: int = 0, topic_id: Uuid = TOPIC_ID
) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse(topic_id=topic_id, partitions=list(partitions))
    return FetchResponse(throttle_time_ms=0, session_id=session_id, responses=[topic])


def replicas(count: int = 3, *, leader: int = 1, epoch: int = 0) -> dict[int, Replica]:
    """Brokers 1 to `count`; one leads, the others follow it."""
    found = {broker_id: Replica(broker_id) for broker_id in range(1, count + 1)}
    elect(found, leader, epoch)
    return found


def elect(found: dict[int, Replica], leader: int, epoch: int) -> None:
    for replica in found.values():
        replica.replicas = tuple(found)
        if replica.id == leader:
            replica.lead(epoch)
        else:
            replica.follow(leader, epoch)
