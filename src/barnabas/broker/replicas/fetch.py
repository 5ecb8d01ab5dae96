"""A fetch in progress: reads its partitions within the limits, waits for min_bytes, and responds.

Contains limits over several partitions, the delayed fetch, and the response with its session.  Reading one
partition belongs in partition_reads.py, fetch sessions in replica/fetch_sessions.py.

Partitions are read in order; each uses part of the remaining bytes, and the first one with records may return
its first batch whole, however large, so that every reader makes progress (KIP-74).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.replicas.current_leader import current_leader, live_leader
from barnabas.broker.replicas.partition_reads import NO_RECORDS, PartitionData, Reader, error_data, read
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.replica.fetch_sessions import INITIAL_EPOCH, PartitionKey, Session
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_ENDPOINTS = 16
LAST_VERSION_WITHOUT_STORAGE_ERROR = 5
_SIZE_BYTES = 4
_BUFFERS = (bytes, bytearray, memoryview)
_TELL_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


Refused = list[tuple[PartitionKey, PartitionData]]


class Wanted(NamedTuple):
    """One partition of a fetch."""

    key: PartitionKey
    topic: str
    topic_id: Uuid
    request: FetchRequest.Partition


class Fetch:
    """A request in progress."""

    __slots__ = (
        "_broker",
        "_call",
        "_limits",
        "_min_bytes",
        "_reader",
        "_refused",
        "_replicas",
        "_request",
        "_session",
        "_version",
        "_wanted",
        "found_bytes",
        "max_bytes",
    )

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        context: RequestContext,
        reader: Reader,
        session: Session | None,
        wanted: list[Wanted],
        refused: Refused,
    ) -> None:
        self._broker = broker
        self._replicas: ReplicaManager = broker.replicas
        self._request = request
        self._call = context
        self._version = context.api_version
        self._reader = reader
        self._session = session
        self._wanted = wanted
        self._refused = refused
        self.max_bytes = min(request.max_bytes, broker.settings["fetch.max.bytes"])
        self._limits = None
        if broker.quotas.is_set and not reader.is_follower:
            self._limits = broker.quotas.limits_of(context)
            if self._limits is not None:
                self.max_bytes = min(self.max_bytes, self._limits.max_fetch_bytes)
        self._min_bytes = min(request.min_bytes, self.max_bytes)
        self.found_bytes = 0

    def answer(self) -> Answer[FetchResponse]:
        """Responds now if there are enough bytes or an error; otherwise later."""
        answers = self.read(is_first_look=True)
        if self._reader.cold:
            return self._answer_when_warm()
        if self._request.max_wait_ms <= 0 or not self.may_wait or self.is_enough(answers):
            return self.response(answers)
        self._reader.may_wait = True  # new records are in the page cache
        operation = DelayedFetch(self, self._min_bytes - self.found_bytes)
        purgatory = self._replicas.purgatory
        deadline_ns = self._replicas.now_ns() + self._request.max_wait_ms * NS_PER_MS
        purgatory.wait(operation, self.awaited_keys(), deadline_ns)
        self._call.on_disconnect = partial(purgatory.forget, operation)
        return operation.promise

    @property
    def may_wait(self) -> bool:
        return bool(self._wanted)

    def awaited_keys(self) -> list[Hashable]:
        """What wakes a delayed fetch."""
        partitions = self._replicas.partitions
        return [partitions[one.topic, one.request.partition] for one in self._wanted]

    def look_again(self) -> list[tuple[PartitionKey, PartitionData]]:
        """Reads for a delayed fetch."""
        return self.read(is_first_look=False)

    def _answer_when_warm(self) -> Promise[FetchResponse]:
        """Has a worker read cold data, then reads again: the event loop waits for no disk."""
        promise: Promise[FetchResponse] = Promise()
        cold, self._reader.cold = self._reader.cold, []

        def warmed() -> None:
            # This time the read may wait for data that was evicted again.
            self._reader.may_wait = True
            try:
                answer = self.answer()
            except Exception as error:  # the client must get a response
                promise.fail(error)
                return
            if isinstance(answer, Promise):
                answer.then(promise.set, promise.fail)
            else:
                assert answer is not None, "a fetch is always answered"
                promise.set(answer)

        self._replicas.storage.warm(cold, warmed)
        return promise

    def read(self, *, is_first_look: bool) -> list[tuple[PartitionKey, PartitionData]]:
        """Reads every partition within the remaining limit."""
        replicas = self._replicas
        partitions = replicas.partitions
        left = self.max_bytes
        min_one_batch = True
        found = 0
        answers = []
        for one in self._wanted:
            wanted = one.request
            hosted = partitions.get((one.topic, wanted.partition))
            if hosted is None or hosted.is_offline:
                code = replicas.missing(one.topic, wanted.partition).code
                answers.append((one.key, error_data(wanted.partition, code)))
                continue
            limit = min(wanted.partition_max_bytes, left)
            if limit < 0:
                answers.append((one.key, error_data(wanted.partition, ErrorCode.UNKNOWN_SERVER_ERROR)))
                continue
            hosted.traffic.fetches += is_first_look
            data = read(
                replicas,
                self._reader,
                hosted,
                one.topic_id,
                wanted,
                limit,
                min_one_batch=min_one_batch,
                is_first_look=is_first_look,
            )
            if data.records is not NO_RECORDS:
                size: int = data.records.length  # type: ignore[union-attr]  # the records are a slice
                found += size
                left = max(0, left - size)
                min_one_batch = False
            answers.append((one.key, data))
        self.found_bytes = found
        return answers

    def is_enough(self, answers: list[tuple[PartitionKey, PartitionData]]) -> bool:
        """Whether to respond now: enough bytes, an error, or more records in later segments."""
        if self.found_bytes >= self._min_bytes:
            return True
        for (_, data), one in zip(answers, self._wanted, strict=True):
            if data.error_code or data.diverging_epoch.epoch != -1 or data.preferred_read_replica != -1:
                return True
            if data.records is not NO_RECORDS and self._has_ended_segment(one):
                return True
        return False

    def _has_ended_segment(self, one: Wanted) -> bool:
        """Whether a read ended at a closed segment: waiting would not add bytes to it."""
        hosted = self._replicas.partitions.get((one.topic, one.request.partition))
        log = None if hosted is None else hosted.log
        return log is not None and one.request.fetch_offset < log.active.base_offset

    @property
    def missing_bytes(self) -> int:
        missing: int = self._min_bytes - self.found_bytes
        return missing

    # Responses

    def response(self, answers: list[tuple[PartitionKey, PartitionData]]) -> FetchResponse:
        response = FetchResponse(throttle_time_ms=0, responses=[])
        if self._limits is not None:
            response.throttle_time_ms = self._limits.fetched(self._size_of(answers))
            if response.throttle_time_ms:
                # No records are returned and the session is unchanged: the client fetches them again.
                response.session_id = 0 if self._session is None else self._session.id
                return response
        partitions = self._replicas.partitions
        for (_, data), one in zip(answers, self._wanted, strict=True):
            if data.error_code:
                self._finish(response, one, data)
            elif data.records is not NO_RECORDS:
                hosted = partitions[one.topic, one.request.partition]
                size: int = data.records.length  # type: ignore[union-attr]  # a slice
                hosted.traffic.bytes_out += size
                if self._reader.is_follower:
                    self._replicas.sent_to_follower(hosted, size)
        answers += self._refused
        request, session = self._request, self._session
        if session is not None:
            response.session_id = session.id
            named = self._replicas.sessions.filter(session, request.session_epoch, answers)
            if isinstance(named, ErrorCode):
                response.error_code = named
                return response
            answers = named
        elif request.session_epoch == INITIAL_EPOCH:
            response.session_id = self._replicas.sessions.create(
                request, self._version, answers, replica_id=self._reader.replica_id
            )
        _group(response, answers)
        return response

    def _size_of(self, answers: list[tuple[PartitionKey, PartitionData]]) -> int:
        """Returns the size of the response as Apache Kafka computes it; in a session only of the changes."""
        sent = [pair for pair in answers if self._session is None or pair[1].records is not NO_RECORDS]
        whole = FetchResponse(throttle_time_ms=0, responses=[])
        _group(whole, sent)
        pieces = whole.encode_pieces(self._version)
        sizes = (len(one) if isinstance(one, _BUFFERS) else one.length for one in pieces)
        return _SIZE_BYTES + sum(sizes)

    def _finish(self, response: FetchResponse, one: Wanted, data: PartitionData) -> None:
        """Returns the error code for the version of the request."""
        code = data.error_code
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._version <= LAST_VERSION_WITHOUT_STORAGE_ERROR:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif code in _TELL_LEADER and self._version >= FIRST_VERSION_WITH_ENDPOINTS:
            self._tell_leader(response, one, data)

    def _tell_leader(self, response: FetchResponse, one: Wanted, data: PartitionData) -> None:
        image = self._broker.image
        leader = current_leader(self._replicas, image, one.topic, one.request.partition)
        data.current_leader = FetchResponse.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )
        if self._reader.is_follower:
            return  # followers know the endpoints of brokers
        end = live_leader(image, leader.leader_id, self._call.listener)
        if end is not None and all(known.node_id != end.node_id for known in response.node_endpoints):
            response.node_endpoints.append(
                FetchResponse.NodeEndpoint(node_id=end.node_id, host=end.host, port=end.port, rack=end.rack)
            )


class FollowerFetch(Fetch):
    """A fetch in a follower's session: looks at those of its partitions that have news.

    Of thousands of partitions few have any; to look at the others too would take longer than to serve these.
    """

    __slots__ = ("_follower_session", "_look")

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        context: RequestContext,
        reader: Reader,
        session: Session,
        look: Callable[[], tuple[list[Wanted], Refused]],
    ) -> None:
        session.sweep()
        super().__init__(broker, request, context, reader, session, *look())
        self._follower_session = session
        self._look = look
        partitions = self._replicas.partitions
        for one in self._wanted:
            hosted = partitions.get((one.topic, one.request.partition))
            if hosted is not None:
                session.partitions[one.key].watch(hosted)

    @property
    def may_wait(self) -> bool:
        return bool(self._wanted) or not self._refused

    def awaited_keys(self) -> list[Hashable]:
        return [self._follower_session]

    def look_again(self) -> list[tuple[PartitionKey, PartitionData]]:
        self._wanted, self._refused = self._look()
        return super().look_again()

    def response(self, answers: list[tuple[PartitionKey, PartitionData]]) -> FetchResponse:
        response = super().response(answers)
        self._follower_session.settle()
        return response


class DelayedFetch(DelayedOperation):
    """A fetch that waits for bytes or an error."""

    __slots__ = ("_fetch", "promise")

    def __init__(self, fetch: Fetch, missing_bytes: int) -> None:
        super().__init__(missing_bytes)
        self.promise: Promise[FetchResponse] = Promise()
        self._fetch = fetch

    def try_complete(self) -> bool:
        answers = self._fetch.look_again()
        if not self._fetch.is_enough(answers):
            self.missing = self._fetch.missing_bytes
            return False
        self.promise.set(self._fetch.response(answers))
        return True

    def expire(self) -> None:
        self.promise.set(self._fetch.response(self._fetch.look_again()))

    def fail(self, error: BaseException) -> None:
        if not self.promise.done:
            self.promise.fail(error)


def _group(response: FetchResponse, answers: list[tuple[PartitionKey, PartitionData]]) -> None:
    """Adds the partitions; consecutive partitions of a topic share an entry."""
    last: object = None
    partitions: list[PartitionData] = []
    for (topic, _), data in answers:
        if topic != last:
            last = topic
            partitions = []
            response.responses.append(
                FetchResponse.FetchableTopicResponse(
                    topic=topic if isinstance(topic, str) else "",
                    topic_id=ZERO_UUID if isinstance(topic, str) else topic,
                    partitions=partitions,
                )
            )
        partitions.append(data)
