"""From queues to brokers: composing Produce requests and handling their responses.

Contains requests in flight, sequence numbers, retries and expiry.  Records belong in `producer`, transaction
state in `transactions`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.records import NO_PRODUCER_ID, NO_SEQUENCE
from barnabas.client.background_tasks import BackgroundTasks
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import Cluster
from barnabas.client.errors.base import RetriableError, error_for
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import TopicPartition
from barnabas.client.producer.accumulator import Accumulator, PartitionQueue
from barnabas.client.producer.batches import NO_OFFSET, NO_TIME, ProducerBatch
from barnabas.client.producer.identity import Identity
from barnabas.client.producer.produce_request import produce_request, refusal_text, responses_by_partition
from barnabas.client.producer.sequences import is_later, sequence_after
from barnabas.client.producer.undelivered import Undelivered
from barnabas.config.settings import Settings
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.client.types.statistics import ProducerStatistics

PRODUCE_KEY = ProduceRequest.schema.key or 0
# The last version in which the client adds partitions to a transaction beforehand (KIP-890).
LAST_ANNOUNCED_VERSION = 11
_Taken = list[tuple[PartitionQueue, ProducerBatch]]
_LOST_SEQUENCE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


class TransactionGate(Protocol):
    """The sender's view of a transaction."""

    @property
    def announces_partitions(self) -> bool: ...

    def may_send(self, partition: TopicPartition) -> bool: ...

    def batch_failed(self, error: KafkaError) -> None: ...


class Sender:
    """Runs in callbacks on the loop: `_pump` sends whatever has become sendable."""

    def __init__(self, settings: Settings, cluster: Cluster, accumulator: Accumulator) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._accumulator = accumulator
        accumulator.wake = self.wake
        self._acks = {"all": -1, "-1": -1, "0": 0, "1": 1}[settings["acks"]]
        self._request_timeout_ms: int = settings["request.timeout.ms"]
        self._delivery_timeout_s: float = settings["delivery.timeout.ms"] / 1000
        self._max_in_flight: int = settings["max.in.flight.requests.per.connection"]
        self._max_request_bytes: int = settings["max.request.size"]
        self._retries: int = settings["retries"]
        self._transactional_id: str | None = settings["transactional.id"]
        self.identity: Identity | None = Identity(cluster) if settings["enable.idempotence"] else None
        self.transactions: TransactionGate | None = None
        self.undelivered = Undelivered()
        self.records_delivered = self.batches_delivered = self.bytes_delivered = self.records_failed = 0
        self._in_flight: dict[int, int] = {}
        self._background_tasks = BackgroundTasks(cluster, self.wake)
        self._acquiring: asyncio.Task[None] | None = None
        self._pump_due = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_closed = False

    # ------------------------------------------------------------------------------------------------ sending

    def wake(self) -> None:
        """Schedule `_pump` in the next iteration of the loop."""
        if not self._pump_due and not self._is_closed:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_due = False
        sendable = self._accumulator.sendable
        if not sendable or self._is_closed:
            return
        self._watch_age()
        if self.identity is not None and not self.identity.is_known:
            self._acquire_identity()
            return
        by_node: dict[int, list[PartitionQueue]] = {}
        leaderless = False
        leader_of = self._cluster.metadata.leader_of
        for partition_queue in list(sendable):
            if not partition_queue.queue:
                del sendable[partition_queue]
                continue
            leader = leader_of(partition_queue.topic_partition)
            if leader is None:
                leaderless = True
            else:
                by_node.setdefault(leader.leader, []).append(partition_queue)
        for node_id, queues in by_node.items():
            self._pump_node(node_id, queues)
        if leaderless or self._cluster.is_stale:
            self._background_tasks.update_metadata(self._lacks_leaders)

    def _pump_node(self, node_id: int, queues: list[PartitionQueue]) -> None:
        connection = self._cluster.pool.ready(self._cluster.metadata.brokers[node_id])
        throttled_s = 0.0 if connection is None else connection.throttled_s
        has_slot = self._in_flight.get(node_id, 0) < self._max_in_flight
        can_send = connection is not None and not throttled_s and has_slot
        self._accumulator.availability.note(node_id, self._loop.time(), can_send=can_send)
        if connection is None:
            self._background_tasks.connect(node_id)
            return
        if throttled_s:
            self._wake_in("throttle", throttled_s)
            return
        while self._in_flight.get(node_id, 0) < self._max_in_flight:
            taken = self._take(queues)
            if not taken:
                return
            self._send(connection, taken)

    def _take(self, queues: list[PartitionQueue]) -> _Taken:
        """Take at most one batch of each queue, up to the maximum request size."""
        taken: _Taken = []
        size = 0
        now = self._loop.time()
        for partition_queue in queues:
            batch = self._next(partition_queue, now)
            if batch is None:
                continue
            if taken and size + batch.size > self._max_request_bytes:
                break
            partition_queue.queue.popleft()
            self._accumulator.batch_taken(partition_queue, batch)
            if self.identity is not None:
                self._number(partition_queue, batch, self.identity)
            size += batch.size
            taken.append((partition_queue, batch))
            partition_queue.in_flight.append(batch)
        # Rotate the queues, so that a full request does not always leave out the same ones.
        if len(queues) > 1:
            queues.append(queues.pop(0))
        return taken

    def _next(self, partition_queue: PartitionQueue, now: float) -> ProducerBatch | None:
        """Return the batch of a queue that may be sent now."""
        if not partition_queue.queue:
            self._accumulator.sendable.pop(partition_queue, None)
            return None
        first = partition_queue.queue[0]
        if first is partition_queue.open and not partition_queue.due:
            self._accumulator.sendable.pop(partition_queue, None)
            return None
        if first.not_before > now:
            self._wake_in("retry", first.not_before - now)
            return None
        if self.transactions is not None and not self.transactions.may_send(partition_queue.topic_partition):
            return None
        if partition_queue.in_flight and not self._may_follow(partition_queue, first):
            return None
        return first

    def _may_follow(self, partition_queue: PartitionQueue, first: ProducerBatch) -> bool:
        """Whether a batch may be sent while others of its partition are in flight."""
        if self.identity is None:
            return self._max_in_flight > 1
        pair = self.identity.pair
        # A partition that does not know a producer accepts any first sequence number.  So the first batch
        # goes alone: if it failed temporarily and the next one were accepted, it could never be written in
        # its place.  A partition that knows the producer accepts only 0 as the first number of a new epoch
        # (KIP-360), so a new epoch need not wait.
        if (
            partition_queue.identity != pair
            or partition_queue.rewrite
            or partition_queue.known_producer_id != pair[0]
        ):
            return False
        # A retried batch waits until it is the first, so that the order cannot change.
        return not first.has_sequence or first.base_sequence < partition_queue.in_flight[0].base_sequence

    def _number(self, partition_queue: PartitionQueue, batch: ProducerBatch, identity: Identity) -> None:
        """Assign a sequence number; a retried batch keeps its own."""
        if partition_queue.identity != identity.pair and (partition_queue.rewrite or not batch.has_sequence):
            partition_queue.identity = identity.pair
            partition_queue.next_sequence = 0
            partition_queue.last_acked = NO_SEQUENCE
            partition_queue.rewrite = False
            batch.unsequence()
            for waiting in partition_queue.queue:
                waiting.unsequence()
        if not batch.has_sequence:
            batch.sequence(*partition_queue.identity, partition_queue.next_sequence)
            partition_queue.next_sequence = sequence_after(partition_queue.next_sequence, batch.record_count)

    def _send(self, connection: BrokerConnection, taken: _Taken) -> None:
        node_id = connection.node.id
        gate = self.transactions
        highest = LAST_ANNOUNCED_VERSION if gate is not None and gate.announces_partitions else None
        version = connection.version_for(PRODUCE_KEY, highest)
        batches = [batch for _, batch in taken]
        request = produce_request(
            batches,
            self._cluster.metadata,
            version,
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            transactional_id=self._transactional_id,
        )
        for batch in batches:
            batch.attempts += 1
        if not self._acks:
            connection.send_with_callback(request, version, None)
            for partition_queue, batch in taken:
                partition_queue.in_flight.remove(batch)
                self._succeed(batch, NO_OFFSET, NO_TIME)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        connection.send_with_callback(
            request, version, partial(self._on_response, node_id, taken), self._request_timeout_ms
        )

    def statistics(self) -> ProducerStatistics:
        from barnabas.client.types.statistics import ProducerStatistics

        waiting = (batch for batch in self._accumulator.incomplete if batch.parts is None)
        return ProducerStatistics(
            records_delivered=self.records_delivered,
            records_failed=self.records_failed,
            batches_delivered=self.batches_delivered,
            bytes_delivered=self.bytes_delivered,
            records_waiting=sum(batch.record_count for batch in waiting),
            bytes_buffered=self._accumulator.used_bytes,
            requests_in_flight=sum(self._in_flight.values()),
        )

    # ---------------------------------------------------------------------------------------------- responses

    def _on_response(
        self, node_id: int, taken: _Taken, message: Message | None, error: Exception | None
    ) -> None:
        self._in_flight[node_id] -= 1
        if isinstance(message, ProduceResponse):
            responses = responses_by_partition(message, self._cluster.metadata)
            for partition_queue, batch in taken:
                response = responses.get(partition_queue.topic_partition)
                partition_queue.in_flight.remove(batch)
                if response is None:
                    self._failed(
                        partition_queue,
                        batch,
                        error_for(
                            ErrorCode.UNKNOWN_SERVER_ERROR, "the response does not contain the partition"
                        ),
                    )
                else:
                    self._handle_response(partition_queue, batch, response)
        else:
            failure = error if isinstance(error, KafkaError) else error_for(ErrorCode.NETWORK_EXCEPTION)
            for partition_queue, batch in taken:
                partition_queue.in_flight.remove(batch)
                self._failed(partition_queue, batch, failure)
        self.wake()

    def _handle_response(
        self,
        partition_queue: PartitionQueue,
        batch: ProducerBatch,
        response: ProduceResponse.PartitionProduceResponse,
    ) -> None:
        code = response.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if batch.has_sequence and (batch.producer_id, batch.producer_epoch) == partition_queue.identity:
                last = sequence_after(batch.base_sequence, batch.record_count - 1)
                if is_later(last, partition_queue.last_acked):
                    partition_queue.last_acked = last
                partition_queue.known_producer_id = batch.producer_id
            self._succeed(batch, response.base_offset, response.log_append_time_ms)
            return
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and not batch.is_done:
            self._split(partition_queue, batch)
            return
        error = error_for(code, refusal_text(response, partition_queue.topic_partition))
        if isinstance(error, RetriableError):
            self._cluster.metadata.expire()
        self._failed(partition_queue, batch, error)

    def _failed(self, partition_queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        """Retry the batch if that may help, else fail it."""
        if batch.is_done:
            # It was failed while it was in flight, and its sequence numbers with it.
            return
        if error.code in _LOST_SEQUENCE:
            # The partition may have expired the producer's state.
            partition_queue.known_producer_id = NO_PRODUCER_ID
        if self._is_retried(partition_queue, batch, error):
            pause_s = self._cluster.retries.pause_s(batch.attempts - 1)
            batch.not_before = self._loop.time() + pause_s
            if partition_queue.rewrite:
                batch.unsequence()
            partition_queue.put_back(batch)
            self._accumulator.sendable[partition_queue] = None
            if isinstance(error, RetriableError):
                self._cluster.metadata.expire()
            return
        self._give_up(partition_queue, batch, error)

    def _is_retried(self, partition_queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> bool:
        if batch.attempts > self._retries or self._loop.time() >= batch.created_at + self._delivery_timeout_s:
            return False
        if isinstance(error, RetriableError):
            return True
        if self.identity is None or error.code not in _LOST_SEQUENCE:
            return False
        is_next = batch.base_sequence == sequence_after(partition_queue.last_acked)
        if not is_next or partition_queue.rewrite:
            # An earlier batch failed and is retried, or was given up: this one follows it.
            return True
        if self.transactions is not None:
            return False
        self._renumber(partition_queue)
        return True

    def _give_up(self, partition_queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        if self.transactions is not None:
            self.transactions.batch_failed(error)
        elif self.identity is not None and batch.has_sequence:
            # The broker expects the missing sequence number: continue with the next epoch.
            self._renumber(partition_queue)
        self._fail_batch(batch, error)

    def _fail_batch(self, batch: ProducerBatch, error: KafkaError) -> None:
        self._accumulator.release(batch)
        self.records_failed += batch.record_count
        batch.fail(error)
        if self.transactions is None:
            # (A transaction that is aborted drops its records, and one that is committed raises their error.)
            self.undelivered.add(batch)

    def _renumber(self, partition_queue: PartitionQueue) -> None:
        assert self.identity is not None
        if not partition_queue.rewrite:
            partition_queue.rewrite = True
            self.identity.bump()
            for waiting in partition_queue.queue:
                waiting.unsequence()

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        if not batch.is_done:
            self._accumulator.release(batch)
            self.batches_delivered += 1
            self.records_delivered += batch.record_count
            self.bytes_delivered += batch.size
            batch.succeed(base_offset, log_append_time_ms)

    def _split(self, partition_queue: PartitionQueue, batch: ProducerBatch) -> None:
        parts = batch.split(max(1, batch.size // 2))
        sequence = batch.base_sequence
        for part in parts:
            if batch.has_sequence:
                part.sequence(batch.producer_id, batch.producer_epoch, sequence)
                sequence = sequence_after(sequence, part.record_count)
            self._accumulator.incomplete[part] = partition_queue
        for part in reversed(parts):
            partition_queue.put_back(part)
        batch.on_done = partial(self._accumulator.release, batch)
        self._accumulator.sendable[partition_queue] = None

    # ---------------------------------------------------------------------------------------------- time-outs

    def _watch_age(self) -> None:
        if "age" not in self._timers and self._accumulator.incomplete:
            oldest = next(iter(self._accumulator.incomplete))
            due_at = oldest.created_at + self._delivery_timeout_s
            self._timers["age"] = self._loop.call_at(due_at, self._expire)

    def _expire(self) -> None:
        self._timers.pop("age", None)
        now = self._loop.time()
        for batch, partition_queue in list(self._accumulator.incomplete.items()):
            if batch.parts is not None or batch.created_at + self._delivery_timeout_s > now:
                continue
            if batch in partition_queue.queue:
                partition_queue.queue.remove(batch)
                self._accumulator.batch_taken(partition_queue, batch)
            self._give_up(partition_queue, batch, _expired(batch, self._delivery_timeout_s))
        self._watch_age()
        self.wake()

    def abort(self, error: KafkaError, *, unsent_only: bool) -> None:
        """Fail queued batches, and unless `unsent_only` also those in flight."""
        for batch, partition_queue in list(self._accumulator.incomplete.items()):
            if batch in partition_queue.queue:
                partition_queue.queue.remove(batch)
                self._accumulator.batch_taken(partition_queue, batch)
            elif unsent_only:
                continue
            if batch.is_done or batch.parts is not None:
                self._accumulator.release(batch)
            else:
                self._fail_batch(batch, error)

    def _wake_in(self, name: str, delay_s: float) -> None:
        known = self._timers.get(name)
        when = self._loop.time() + delay_s
        if known is not None and not known.cancelled() and self._loop.time() < known.when() <= when:
            return
        if known is not None:
            known.cancel()
        self._timers[name] = self._loop.call_at(when, self.wake)

    # --------------------------------------------------------------------------------------- background tasks

    def _lacks_leaders(self) -> bool:
        leader_of = self._cluster.metadata.leader_of
        return any(
            leader_of(partition_queue.topic_partition) is None
            for partition_queue in self._accumulator.sendable
        )

    def _acquire_identity(self) -> None:
        if self._acquiring is None or self._acquiring.done():
            self._acquiring = asyncio.ensure_future(self._acquired())

    async def _acquired(self) -> None:
        assert self.identity is not None
        if self.transactions is not None:
            # A transactional producer gets its identity from init_transactions().
            return
        try:
            await self.identity.obtain()
        except KafkaError as error:
            self.abort(error, unsent_only=True)
        self.wake()

    async def close(self) -> None:
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        await self._background_tasks.close()
        if self._acquiring is not None:
            self._acquiring.cancel()
            await asyncio.gather(self._acquiring, return_exceptions=True)


def _expired(batch: ProducerBatch, timeout_s: float) -> KafkaTimeoutError:
    what = f"{batch.record_count} records for {batch.topic}-{batch.partition}"
    return KafkaTimeoutError(f"{what} were not delivered within {timeout_s * 1000:.0f} ms")
