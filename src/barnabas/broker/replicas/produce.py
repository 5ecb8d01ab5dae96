"""A produce request in progress: verification, append, acknowledgement, response.

Validation belongs in broker/handlers/produce.py, replication in replica/.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.topic_names import is_internal
from barnabas.base.units import NS_PER_MS
from barnabas.batch.check import InvalidRecords
from barnabas.batch.view import BatchView
from barnabas.broker.network.request_context import Answer, CloseConnectionError, RequestContext
from barnabas.broker.replicas.current_leader import current_leader, live_leader
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.appends import AppendResult
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.producers.producer_append import Verification

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_THAT_ADDS = 12
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_WITH_LEADER = 10
RECORD_ERRORS_SHOWN = 3
# The only client that may write to internal topics.
ADMIN_CLIENT_ID = "__admin_client"
# Errors that Apache Kafka returns without the log start offset.
_WITHOUT_LOG_START = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
)
# Errors of a coordinator that older clients do not retry, and the retriable error that replaces them.
_RETRIED_BY_ALL = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class Write:
    """One partition of a request, and its result."""

    __slots__ = ("answer", "hosted", "name", "records", "required_offset", "topic_id", "verification")

    def __init__(self, name: TopicPartition, topic_id: Uuid, records: memoryview) -> None:
        self.name = name
        self.topic_id = topic_id
        self.records = records
        self.hosted: Hosted | None = None
        self.verification: Verification | None = None
        self.required_offset = 0
        self.answer = ProduceResponse.PartitionProduceResponse(
            index=name.partition, error_code=0, base_offset=-1
        )

    def refuse(self, code: ErrorCode) -> None:
        self.answer.error_code = code

    def appended(self, hosted: Hosted, result: AppendResult) -> None:
        """Called when the records are in the leader's log."""
        answer = self.answer
        answer.base_offset = result.first_offset
        answer.log_append_time_ms = result.log_append_time_ms
        answer.log_start_offset = result.log_start_offset
        self.hosted = hosted
        self.required_offset = result.last_offset + 1

    @property
    def is_refused(self) -> bool:
        return self.answer.error_code != 0


class Produce:
    """A request in progress."""

    __slots__ = ("_broker", "_call", "_replicas", "_request", "_transactional", "_version", "_writes")

    def __init__(
        self,
        broker: Broker,
        request: ProduceRequest,
        context: RequestContext,
        writes: Sequence[Write],
        transactional: Sequence[Write] = (),
    ) -> None:
        self._broker = broker
        self._replicas: ReplicaManager = broker.replicas
        self._request = request
        self._call = context
        self._version = context.api_version
        self._writes = writes
        # Those of the writes that must be verified.
        self._transactional = transactional

    def start(self) -> Answer[ProduceResponse | None]:
        """Verifies transactional writes, appends, and responds when the acks are complete."""
        if self._transactional:
            return self._verify_and_append()
        return self.append()

    # Verification

    def transactional_producers(self) -> set[tuple[int, int]]:
        """Returns the ids and epochs of the producers of transactional writes."""
        return {_producer_of(write.records) for write in self._transactional}

    def _verify_and_append(self) -> Promise[ProduceResponse | None]:
        """Verifies writes whose transaction their partition does not know; then appends."""
        producers = self.transactional_producers()
        check_one_producer(producers)
        promise: Promise[ProduceResponse | None] = Promise()
        unknown = [write for write in self._transactional if self._start_verification(write)]
        if not unknown:
            self._append_into(promise, {})
            return promise
        (producer_id, producer_epoch), *_ = producers
        transactional_id = self._request.transactional_id
        assert transactional_id is not None, "it was checked"
        question = TransactionalWrite(
            transactional_id,
            producer_id,
            producer_epoch,
            [write.name for write in unknown],
            may_add=self._version >= FIRST_VERSION_THAT_ADDS,
            knows_abortable=self._version >= FIRST_VERSION_WITH_ABORTABLE,
        )
        answer = self._replicas.verifier.verify(question)
        if not answer.done:
            for write in self._writes:
                # The receive buffer is reused before the coordinator responds.
                write.records = memoryview(bytearray(write.records))
        answer.then(lambda errors: self._append_into(promise, errors), promise.fail)
        return promise

    def _start_verification(self, write: Write) -> bool:
        """Whether this partition must be verified with the coordinator."""
        batch = BatchView(write.records)
        try:
            hosted = self._replicas.find(*write.name)
            log = self._replicas.log_of(hosted, -1, leader_only=True)
            write.verification = log.start_verification(
                batch.producer_id,
                batch.base_sequence,
                batch.producer_epoch,
                supports_epoch_bump=self._version >= FIRST_VERSION_THAT_ADDS,
            )
        except KafkaError as error:
            write.refuse(error.code)
            return False
        return write.verification is not None

    def _append_into(self, promise: Promise[ProduceResponse | None], errors: PartitionErrors) -> None:
        for write in self._writes:
            code = errors.get(write.name, ErrorCode.NONE)
            if code and not write.is_refused:
                _refuse_unverified(write, code)
        try:
            answer = self.append()
        except Exception as error:
            promise.fail(error)
            return
        if isinstance(answer, Promise):
            answer.then(promise.set, promise.fail)
        else:
            promise.set(answer)

    # Appending

    def append(self) -> Answer[ProduceResponse | None]:
        acks = self._request.acks
        if acks not in (-1, 0, 1):
            for write in self._writes:
                if not write.is_refused:
                    write.refuse(ErrorCode.INVALID_REQUIRED_ACKS)
            return self.response()
        for write in self._writes:
            if not write.is_refused:
                self._append_one(write, acks)
        if acks == 0:
            self._be_silent()
            return None
        return self.acknowledge()

    def acknowledge(self) -> ProduceResponse | Promise[ProduceResponse | None]:
        """Responds once the appended records are acknowledged."""
        acks = self._request.acks
        waiting = [write for write in self._writes if self._must_wait(write, acks)]
        if waiting:
            return self._wait(waiting, acks)
        return self.response()

    def _append_one(self, write: Write, acks: int) -> None:
        topic, index = write.name
        if is_internal(topic) and self._call.client_id != ADMIN_CLIENT_ID:
            write.refuse(ErrorCode.INVALID_TOPIC_EXCEPTION)
            return
        try:
            hosted = write.hosted = self._replicas.find(topic, index)
            result = self._replicas.append(hosted, write.records, acks, write.verification)
        except KafkaError as error:
            self.refuse_append(write, error)
            return
        write.appended(hosted, result)

    def refuse_append(self, write: Write, error: KafkaError) -> None:
        answer = write.answer
        answer.error_code = error.code
        hosted = write.hosted
        if isinstance(error, InvalidRecords):
            _tell_records(answer, write.name, error)
        elif error.code in _WITHOUT_LOG_START:
            return
        if hosted is not None and hosted.log is not None:
            answer.log_start_offset = hosted.log.log_start_offset

    def _be_silent(self) -> None:
        """acks=0 has no response; an error closes the connection."""
        refused = [write for write in self._writes if write.is_refused]
        if refused:
            names = ", ".join(f"{one.name}: {ErrorCode(one.answer.error_code).name}" for one in refused)
            raise CloseConnectionError(f"a produce with acks=0 failed ({names})")

    # Waiting

    def _must_wait(self, write: Write, acks: int) -> bool:
        if write.is_refused or write.hosted is None:
            return False
        code = self._replicas.answer_to(write.hosted, acks, write.required_offset)
        if code is None:
            return True
        write.answer.error_code = code
        return False

    def _wait(self, waiting: list[Write], acks: int) -> Promise[ProduceResponse | None]:
        operation = DelayedProduce(self, self._replicas, waiting, acks)
        deadline_ns = self._broker.clock.monotonic_ns() + max(self._request.timeout_ms, 0) * NS_PER_MS
        keys = [write.hosted for write in waiting if write.hosted is not None]
        purgatory = self._replicas.purgatory
        purgatory.wait(operation, keys, deadline_ns)
        self._call.on_disconnect = partial(purgatory.forget, operation)
        return operation.promise

    # Responses

    def response(self) -> ProduceResponse:
        by_id = self._version >= FIRST_VERSION_WITH_TOPIC_IDS
        topics: dict[str | Uuid, ProduceResponse.TopicProduceResponse] = {}
        response = ProduceResponse(responses=[])
        for write in self._writes:
            key = write.topic_id if by_id else write.name.topic
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = ProduceResponse.TopicProduceResponse(
                    name="" if by_id else write.name.topic,
                    topic_id=write.topic_id if by_id else ZERO_UUID,
                    partition_responses=[],
                )
                response.responses.append(topic)
            topic.partition_responses.append(write.answer)
            wrong_broker = write.answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            if wrong_broker and self._version >= FIRST_VERSION_WITH_LEADER:
                self._tell_leader(response, write)
        return response

    def _tell_leader(self, response: ProduceResponse, write: Write) -> None:
        image = self._broker.image
        leader = current_leader(self._replicas, image, *write.name)
        write.answer.current_leader = ProduceResponse.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )
        end = live_leader(image, leader.leader_id, self._call.listener)
        if end is not None and all(known.node_id != end.node_id for known in response.node_endpoints):
            response.node_endpoints.append(
                ProduceResponse.NodeEndpoint(node_id=end.node_id, host=end.host, port=end.port, rack=end.rack)
            )


class DelayedProduce(DelayedOperation):
    """A produce whose records wait for their acknowledgement."""

    __slots__ = ("_acks", "_produce", "_replicas", "_writes", "promise")

    def __init__(self, produce: Produce, replicas: ReplicaManager, writes: list[Write], acks: int) -> None:
        super().__init__()
        self.promise: Promise[ProduceResponse | None] = Promise()
        self._produce = produce
        self._replicas = replicas
        self._writes = writes
        self._acks = acks

    def try_complete(self) -> bool:
        self._writes = [write for write in self._writes if not self._is_answered(write)]
        if self._writes:
            return False
        self.promise.set(self._produce.response())
        return True

    def _is_answered(self, write: Write) -> bool:
        assert write.hosted is not None, "only what was appended waits"
        code = self._replicas.answer_to(write.hosted, self._acks, write.required_offset)
        if code is None:
            return False
        write.answer.error_code = code
        return True

    def expire(self) -> None:
        for write in self._writes:
            write.refuse(ErrorCode.REQUEST_TIMED_OUT)
        self.promise.set(self._produce.response())

    def fail(self, error: BaseException) -> None:
        if not self.promise.done:
            self.promise.fail(error)


def _tell_records(
    answer: ProduceResponse.PartitionProduceResponse, name: TopicPartition, error: InvalidRecords
) -> None:
    """Returns the errors of single records (KIP-467), with Apache Kafka's messages."""
    where = "" if error.code is ErrorCode.INVALID_TIMESTAMP else f" in topic partition {name}"
    answer.record_errors = [
        ProduceResponse.BatchIndexAndErrorMessage(
            batch_index=one.index, batch_index_error_message=one.message + where
        )
        for one in error.record_errors
    ]
    answer.error_message = error.message
    if error.code is ErrorCode.INVALID_RECORD:
        shown = ", ".join(
            f"RecordError(batchIndex={one.batch_index}, message='{one.batch_index_error_message}')"
            for one in answer.record_errors[:RECORD_ERRORS_SHOWN]
        )
        answer.error_message = (
            f"One or more records have been rejected due to {len(answer.record_errors)} record errors in"
            f" total, and only showing the first three errors at most: [{shown}]"
        )


def check_one_producer(producers: set[tuple[int, int]]) -> None:
    """Raises if a request has transactional records of several producers."""
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )


def _producer_of(records: memoryview) -> tuple[int, int]:
    batch = BatchView(records)
    return batch.producer_id, batch.producer_epoch


def _refuse_unverified(write: Write, code: ErrorCode) -> None:
    """Returns a code that every client handles."""
    if code is ErrorCode.INVALID_TXN_STATE:
        write.refuse(code)
        write.answer.error_message = "Partition was not added to the transaction"
    elif code in _RETRIED_BY_ALL:
        write.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        write.answer.error_message = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        )
    else:
        write.refuse(code)
