"""Producers: an idempotent one with acks=all, which retries in order, and a careless one with acks=1."""

from __future__ import annotations

from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.replicated_cluster.client import Cluster, ClusterClient
from barnabas.testing.simulation.replicated_cluster.history import PartitionHistory

PRODUCE, INIT_PRODUCER_ID = 0, 22
ACKS_ALL = -1
RECORD_EVERY_NS = 40 * NS_PER_MS
RETRY_NS = 40 * NS_PER_MS
# The broker gives up before the client does.
ACKS_TIMEOUT_MS = 900
TIMEOUT_MS = 1_500
MAX_UNACKNOWLEDGED = 6
# As max.in.flight.requests.per.connection: a leader remembers as many batches of a producer.
MAX_IN_FLIGHT = 5
MAX_RECORDS = 3
# Nothing was appended, or perhaps something was: the same batch is sent again.
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Sent:
    """A batch that a producer has to bring to its partition."""

    __slots__ = ("base_sequence", "is_in_flight", "is_sent_alone", "values")

    def __init__(self, base_sequence: int, values: list[bytes]) -> None:
        self.base_sequence = base_sequence
        self.values = values
        self.is_in_flight = False
        # Whether everything before it was acknowledged when it was sent, and nothing else was under way.
        self.is_sent_alone = False


class PartitionQueue:
    """The batches of one partition that are not acknowledged, in order."""

    def __init__(self, history: PartitionHistory) -> None:
        self.history = history
        self.next_sequence = 0
        self.batches: list[Sent] = []
        self.in_flight = 0
        self.leader = self.leader_epoch = -1
        # A batch was acknowledged.
        self.is_known = False
        # An error was received: nothing is sent until all responses are there.
        self.is_draining = False


class Producer(ClusterClient):
    """Idempotent, acks=all: nothing acknowledged is lost, nothing is there twice or out of order."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        # Acknowledged batches of each partition.
        self.acknowledged: dict[tuple[Uuid, int], int] = {}
        self._number = 0
        super().__init__(cluster, node_id)

    def started(self) -> None:
        self.producer_id = self.producer_epoch = -1
        self._max_in_flight = (1, 3, MAX_IN_FLIGHT)[self.random.integer(0, 2)]
        self._queues: dict[tuple[Uuid, int], PartitionQueue] = {}
        self.after(RETRY_NS, self._initialize)

    # The producer's id

    def _initialize(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.send(self.any_broker(), INIT_PRODUCER_ID, request, self._initialized, TIMEOUT_MS)

    def _initialized(self, message: Message | None) -> None:
        if isinstance(message, InitProducerIdResponse) and message.error_code == ErrorCode.NONE:
            self.producer_id, self.producer_epoch = message.producer_id, message.producer_epoch
            self._produce(self.producer_id)
        else:
            self.after(RETRY_NS, self._initialize)

    # Records

    def _produce(self, producer_id: int) -> None:
        if producer_id != self.producer_id:
            return
        self.after(RECORD_EVERY_NS, partial(self._produce, producer_id))
        if not self.is_active:
            for queue in list(self._queues.values()):
                self._pump(queue)
            return
        partitions = self.partitions()
        if not partitions:
            return
        name, topic_id, index, _ = partitions[self.random.integer(0, len(partitions) - 1)]
        self._add(self._queue(name, topic_id, index))

    def _queue(self, name: str, topic_id: Uuid, index: int) -> PartitionQueue:
        queue = self._queues.get((topic_id, index))
        if queue is None:
            queue = PartitionQueue(self.cluster.history(name, topic_id, index))
            self._queues[topic_id, index] = queue
        return queue

    def _add(self, queue: PartitionQueue) -> None:
        if len(queue.batches) < MAX_UNACKNOWLEDGED:
            count = self.random.integer(1, MAX_RECORDS)
            queue.batches.append(Sent(queue.next_sequence, self._values(count)))
            queue.next_sequence += count
        self._pump(queue)

    def _values(self, count: int) -> list[bytes]:
        first = self._number
        self._number += count
        return [b"%d:%d" % (self.id, number) for number in range(first, first + count)]

    @property
    def is_idle(self) -> bool:
        """Nothing is unacknowledged."""
        return not any(queue.batches for key, queue in self._queues.items() if self.exists(key[0]))

    def _is_current(self, queue: PartitionQueue) -> bool:
        """Not of an earlier producer id."""
        return self._queues.get((queue.history.topic_id, queue.history.index)) is queue

    def _pump(self, queue: PartitionQueue) -> None:
        history = queue.history
        if not self._is_current(queue):
            return
        if not self.exists(history.topic_id):
            del self._queues[history.topic_id, history.index]
            return
        if queue.is_draining and queue.in_flight:
            return
        queue.is_draining = False
        if not queue.in_flight:
            state = self.image().partition(history.topic_id, history.index)
            queue.leader = -1
            # As a client does, ignore what is older than known: a deposed leader lacks sequence numbers.
            if state is not None and state.leader_epoch >= queue.leader_epoch:
                queue.leader, queue.leader_epoch = state.leader, state.leader_epoch
        if queue.leader < 0:
            return
        # A leader accepts any first sequence number of an unknown producer, as in Apache Kafka (KIP-360).
        limit = self._max_in_flight if queue.is_known else 1
        for batch in queue.batches[:limit]:
            if not batch.is_in_flight:
                batch.is_sent_alone = batch is queue.batches[0] and not queue.in_flight
                self._send(queue, batch)
                if queue.is_draining:
                    break

    def _send(self, queue: PartitionQueue, batch: Sent) -> None:
        batch.is_in_flight = True
        queue.in_flight += 1
        now_ms = self.node.clock.wall_ms()
        records = build(
            [Record(place, now_ms, None, value) for place, value in enumerate(batch.values)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        request = produce_request(queue.history, bytes(records), ACKS_ALL)
        self.send(queue.leader, PRODUCE, request, partial(self._responded, queue, batch), TIMEOUT_MS)

    def _responded(self, queue: PartitionQueue, batch: Sent, message: Message | None) -> None:
        history = queue.history
        if not self._is_current(queue):
            return
        queue.in_flight -= 1
        batch.is_in_flight = False
        code, offset = outcome(message)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (
            history.is_unclean or self._is_forgotten(history, batch)
        ):
            self.started()
            return
        if code is ErrorCode.NONE:
            queue.batches.remove(batch)
            queue.is_known = True
            self._acknowledge(history, batch, offset)
        else:
            queue.is_draining = True
            is_out_of_order = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not batch.is_sent_alone
            if code not in RETRIABLE and not is_out_of_order and self.exists(history.topic_id):
                self.violate(
                    f"{history.name}: sequence number {batch.base_sequence}"
                    f" of producer {self.producer_id}: {code!r}"
                )
        self.after(RETRY_NS if queue.is_draining else 1, partial(self._pump, queue))

    def _is_forgotten(self, history: PartitionHistory, batch: Sent) -> bool:
        """Whether it was appended by an attempt whose response got lost.

        A leader that has restarted may know the last batch of a producer only, which is in its snapshots, and
        not recognize this one: as in Apache Kafka, the producer gives up and begins with another id or epoch.
        """
        written = history.sequences.get((self.producer_id, self.producer_epoch), ())
        return batch.is_sent_alone and batch.base_sequence in written

    def _acknowledge(self, history: PartitionHistory, batch: Sent, offset: int) -> None:
        key = history.topic_id, history.index
        self.acknowledged[key] = self.acknowledged.get(key, 0) + 1
        if history.is_unclean:
            return  # perhaps by a leader whose epoch is over
        for place, value in enumerate(batch.values):
            known = history.offsets.get(value)
            if known != offset + place:
                self.violate(
                    f"{history.name}: {value!r} was acknowledged at {offset + place}, and is at {known}"
                )
                return


class CarelessProducer(ClusterClient):
    """acks=1, never a retry: its records may be lost, and are never there twice."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._number = 0
        super().__init__(cluster, node_id)

    def started(self) -> None:
        self.after(RECORD_EVERY_NS, self._produce)

    def _produce(self) -> None:
        self.after(RECORD_EVERY_NS, self._produce)
        partitions = self.partitions() if self.is_active else []
        if not partitions:
            return
        name, topic_id, index, state = partitions[self.random.integer(0, len(partitions) - 1)]
        self._number += 1
        records = build([Record(0, self.node.clock.wall_ms(), None, b"%d:%d" % (self.id, self._number))])
        history = self.cluster.history(name, topic_id, index)
        if state.leader >= 0:
            request = produce_request(history, bytes(records), 1)
            self.send(state.leader, PRODUCE, request, partial(self._responded, history), TIMEOUT_MS)

    def _responded(self, history: PartitionHistory, message: Message | None) -> None:
        code, _ = outcome(message)
        if code is not ErrorCode.NONE and code not in RETRIABLE and self.exists(history.topic_id):
            self.violate(f"{history.name}: {code!r}")


def produce_request(
    history: PartitionHistory, records: bytes, acks: int, transactional_id: str | None = None
) -> ProduceRequest:
    """By name and by topic id; the version decides which is sent."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=ACKS_TIMEOUT_MS,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=history.topic,
                topic_id=history.topic_id,
                partition_data=[ProduceRequest.PartitionProduceData(index=history.index, records=records)],
            )
        ],
    )


def outcome(message: Message | None) -> tuple[ErrorCode, int]:
    """Without a response it is not known what happened."""
    if not isinstance(message, ProduceResponse):
        return ErrorCode.REQUEST_TIMED_OUT, -1
    result = message.responses[0].partition_responses[0]
    return ErrorCode(result.error_code), result.base_offset
