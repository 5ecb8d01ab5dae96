"""The sender against brokers that fail in every way: nothing is lost, repeated or out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.view import MAX_SEQUENCE
from barnabas.client import Producer
from barnabas.client import errors as client_errors
from barnabas.client.producer.identity import MAX_EPOCH
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from tests.client.live.work import until
from tests.client.scripted import NODE_ID, PRODUCER_ID, TOPIC, Hangup, ScriptedBroker, scripted

Run = Callable[[Any], Any]
# Small enough that each record is a batch of its own.
ONE_EACH: dict[str, Any] = {"batch_size": 1, "linger_ms": 0, "retry_backoff_ms": 5, "reconnect_backoff_ms": 5}


def sequences(broker: ScriptedBroker) -> list[tuple[int, int]]:
    """Epoch and first sequence number of every batch in the log."""
    return [(batch.producer_epoch, batch.base_sequence) for batch in broker.log]


def values(broker: ScriptedBroker) -> list[bytes | None]:
    return [record.value for batch in broker.log for record in batch.records()]


class InOrder:
    """Like a real broker, it accepts only the next sequence number."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._expected: dict[int, int] = {}

    def __call__(self, request: ProduceRequest, version: int) -> Any:
        epoch, sequence, count = _identity(request)
        expected = self._expected.get(epoch, 0)
        if sequence < expected:
            return self._broker.produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        if sequence > expected:
            return self._broker.produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self._expected[epoch] = expected + count
        return self._broker.produced(0, self._broker.take(request))


async def in_flight(producer: Producer) -> int:
    """Requests without a response, once the sender has sent all that it may: it does so in iterations of the
    loop, and then waits for a response or a timer."""
    while producer._sender._pump_due:
        await asyncio.sleep(0)
    return producer._sender._in_flight.get(NODE_ID, 0)


def _identity(request: ProduceRequest) -> tuple[int, int, int]:
    from barnabas.batch.view import BatchView

    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, bytes | bytearray | memoryview)
    batch = BatchView(bytes(records))
    assert batch.producer_id == PRODUCER_ID
    return batch.producer_epoch, batch.base_sequence, batch.record_count


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_what_may_succeed_later_is_sent_again(run: Run, code: ErrorCode) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            broker.once(ProduceRequest, lambda *_: broker.produced(code))
            assert (await producer.send_and_wait(TOPIC, b"x")).offset == 0
            assert sequences(broker) == [(0, 0)]
            assert broker.count(MetadataRequest) >= 2, "the metadata was requested again"

    run(work())


def test_order_holds_when_the_first_of_five_fails(run: Run) -> None:
    # M-F3
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            broker.handlers[ProduceRequest] = InOrder(broker)
            broker.once(ProduceRequest, lambda *_: broker.produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            sent = [await producer.send(TOPIC, b"%d" % number) for number in range(20)]
            assert [(await one).offset for one in sent] == list(range(20))
            assert values(broker) == [b"%d" % number for number in range(20)]
            assert sequences(broker) == [(0, number) for number in range(20)]
            assert broker.count(ProduceRequest) > 20

    run(work())


@pytest.mark.parametrize("taken", [True, False])
def test_a_connection_that_breaks_repeats_nothing(run: Run, taken: bool) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            strict = InOrder(broker)
            broker.handlers[ProduceRequest] = strict

            def break_off(request: ProduceRequest, version: int) -> Any:
                if taken:
                    strict(request, version)
                raise Hangup

            await producer.send_and_wait(TOPIC, b"before")
            broker.once(ProduceRequest, break_off)
            sent = [await producer.send(TOPIC, b"%d" % number) for number in range(10)]
            for one in sent:
                await one
            assert values(broker) == [b"before", *(b"%d" % number for number in range(10))]

    run(work())


def test_a_failed_batch_is_followed_by_the_next_epoch(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            broker.handlers[ProduceRequest] = InOrder(broker)
            broker.once(ProduceRequest, lambda *_: broker.produced(ErrorCode.INVALID_RECORD))
            sent = [await producer.send(TOPIC, b"%d" % number) for number in range(5)]
            with pytest.raises(client_errors.InvalidRecordError):
                await sent[0]
            assert [(await one).offset for one in sent[1:]] == [0, 1, 2, 3]
            assert sequences(broker) == [(1, 0), (1, 1), (1, 2), (1, 3)]
            assert broker.count(InitProducerIdRequest) == 1

    run(work())


def test_a_broker_that_has_forgotten_the_producer(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            await producer.send_and_wait(TOPIC, b"first")
            broker.once(ProduceRequest, lambda *_: broker.produced(ErrorCode.UNKNOWN_PRODUCER_ID))
            assert (await producer.send_and_wait(TOPIC, b"second")).offset == 1
            assert sequences(broker) == [(0, 0), (1, 0)]

    run(work())


def test_the_delivery_time_out_ends_it(run: Run) -> None:
    async def work() -> None:
        options = {**ONE_EACH, "delivery_timeout_ms": 300, "request_timeout_ms": 200}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            usual = broker.handlers[ProduceRequest]
            broker.handlers[ProduceRequest] = lambda *_: None
            delivery = await producer.send(TOPIC, b"unknown")
            with pytest.raises(client_errors.KafkaTimeoutError, match="300 ms"):
                await delivery
            assert isinstance(delivery.error, TimeoutError)
            broker.handlers[ProduceRequest] = usual
            assert (await producer.send_and_wait(TOPIC, b"later")).offset == 0
            # It is unknown whether the first was written: sequence numbers restart.
            assert sequences(broker) == [(1, 0)]

    run(work())


def test_no_retries_are_none(run: Run) -> None:
    async def work() -> None:
        options = {**ONE_EACH, "retries": 0}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            broker.once(ProduceRequest, lambda *_: broker.produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            with pytest.raises(client_errors.NotLeaderOrFollowerError):
                await producer.send_and_wait(TOPIC, b"x")
            assert broker.count(ProduceRequest) == 1
            assert broker.count(InitProducerIdRequest) == 0, "retries=0 is not idempotent"

    run(work())


def test_a_throttled_sender_pauses(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:

            def throttled(request: ProduceRequest, version: int) -> Any:
                return broker.produced(0, broker.take(request), throttle_ms=600_000)

            broker.once(ProduceRequest, throttled)
            await producer.send_and_wait(TOPIC, b"x")
            second = await producer.send(TOPIC, b"y")
            assert await in_flight(producer) == 0
            link = producer.cluster.pool.ready(producer.cluster.metadata.brokers[NODE_ID])
            assert link is not None
            assert link.throttled_s > 60
            # Let the pause be over.
            link._throttled_until = 0.0
            producer._sender.wake()
            await second
            assert broker.count(ProduceRequest) == 2

    run(work())


def test_no_more_requests_in_flight_than_allowed(run: Run) -> None:
    async def work() -> None:
        options = {**ONE_EACH, "max_in_flight_requests_per_connection": 2}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            await producer.send_and_wait(TOPIC, b"the first goes alone")
            broker.handlers[ProduceRequest] = lambda *_: None
            for _ in range(5):
                await producer.send(TOPIC, b"x")
            assert await in_flight(producer) == 2
            await until(lambda: broker.count(ProduceRequest) == 1 + 2)
            await producer.close(timeout_ms=0)

    run(work())


def test_no_batch_overtakes_the_first_one_of_a_partition(run: Run) -> None:
    """A partition that does not know the producer would accept the second batch, and then never the first."""

    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            await producer.partitions_for(TOPIC)
            broker.handlers[ProduceRequest] = lambda *_: None
            for _ in range(3):
                await producer.send(TOPIC, b"x", partition=0)
            await until(lambda: broker.count(ProduceRequest) == 1)
            assert await in_flight(producer) == 1
            await producer.close(timeout_ms=0)

    run(work())


@pytest.mark.parametrize(
    ("code", "together"), [(ErrorCode.INVALID_RECORD, 3), (ErrorCode.UNKNOWN_PRODUCER_ID, 1)]
)
def test_another_epoch_waits_only_where_the_producer_may_be_unknown(
    run: Run, code: ErrorCode, together: int
) -> None:
    """A partition that knows the producer accepts only 0 as the first number of an epoch."""

    async def work() -> None:
        options = {**ONE_EACH, "retries": 1}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            await producer.send_and_wait(TOPIC, b"the first goes alone", partition=0)
            broker.handlers[ProduceRequest] = lambda *_: broker.produced(code)
            with pytest.raises(client_errors.KafkaError):
                await producer.send_and_wait(TOPIC, b"refused", partition=0)
            asked = broker.count(ProduceRequest)
            broker.handlers[ProduceRequest] = lambda *_: None
            for _ in range(3):
                await producer.send(TOPIC, b"x", partition=0)
            await until(lambda: broker.count(ProduceRequest) == asked + together)
            assert await in_flight(producer) == together
            await producer.close(timeout_ms=0)

    run(work())


def test_a_broker_that_goes_and_comes_back(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            await broker.stop()
            waiting = await producer.send(TOPIC, b"meanwhile")
            node = producer.cluster.metadata.brokers[NODE_ID]
            await until(lambda: any(key[0] == node.id for key in producer.cluster.pool._failures))
            assert not waiting.done
            await broker.start()
            assert (await waiting).offset == 1
            assert values(broker) == [b"before", b"meanwhile"]

    run(work())


def test_an_old_broker_receives_old_versions(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            broker.highest = {0: 5, 3: 5, 18: 2, 22: 1}
            async with Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
                assert (await producer.send_and_wait(TOPIC, b"x")).offset == 0
            versions = {type(request): version for request, version in broker.requests}
            assert (versions[ProduceRequest], versions[MetadataRequest]) == (5, 5)

    run(work())


def test_a_topic_that_grows_is_noticed(run: Run) -> None:
    async def work() -> None:
        options = {**ONE_EACH, "metadata_max_age_ms": 50}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            await producer.send_and_wait(TOPIC, b"x")
            broker.partitions = 3

            async def is_noticed() -> bool:
                await producer.send(TOPIC, b"x", partition=0)
                return producer._accumulator.by_topic[TOPIC].count == 3

            await until(is_noticed)

    run(work())


def test_closing_without_time_fails_what_waits(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            producer = Producer(bootstrap_servers=broker.bootstrap, linger_ms=10_000, batch_size=100_000)
            await producer.partitions_for(TOPIC)
            broker.handlers[ProduceRequest] = lambda *_: None
            delivery = await producer.send(TOPIC, b"x")
            with pytest.raises(
                client_errors.UndeliveredError, match="1 record was not delivered: 1 for scripted"
            ):
                await producer.close(timeout_ms=50)
            with pytest.raises(client_errors.RequestTimedOutError, match="closed"):
                await delivery

    run(work())


def test_behind_the_largest_sequence_number_comes_0(run: Run) -> None:
    """A producer that wrote 2^31 records to a partition: numbers wrap, as in Apache Kafka."""

    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            await producer.send_and_wait(TOPIC, b"first")
            queue = producer._accumulator.by_topic[TOPIC].queues[0]
            queue.next_sequence, queue.last_acked = MAX_SEQUENCE, MAX_SEQUENCE - 1
            for value in (b"largest", b"smallest", b"next"):
                await producer.send_and_wait(TOPIC, value)
            assert sequences(broker) == [(0, 0), (0, MAX_SEQUENCE), (0, 0), (0, 1)]
            assert queue.last_acked == 1
            # The refused number follows the last acknowledged one: a new epoch is needed.
            broker.once(ProduceRequest, lambda *_: broker.produced(ErrorCode.UNKNOWN_PRODUCER_ID))
            await producer.send_and_wait(TOPIC, b"after a loss")
            assert sequences(broker)[-1] == (1, 0)

    run(work())


def test_a_batch_across_the_largest_sequence_number(run: Run) -> None:
    async def work() -> None:
        options: dict[str, Any] = {**ONE_EACH, "batch_size": 10_000, "linger_ms": 30_000}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            await producer.send(TOPIC, b"first")
            await producer.flush()
            queue = producer._accumulator.by_topic[TOPIC].queues[0]
            queue.next_sequence, queue.last_acked = MAX_SEQUENCE - 1, MAX_SEQUENCE - 2
            for count in (4, 1):
                for _ in range(count):
                    await producer.send(TOPIC, b"x")
                await producer.flush()
            assert sequences(broker) == [(0, 0), (0, MAX_SEQUENCE - 1), (0, 2)]

    run(work())


def test_one_retry_is_one(run: Run) -> None:
    async def work() -> None:
        options = {**ONE_EACH, "retries": 1}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            refused = broker.produced(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            broker.once(ProduceRequest, lambda *_: refused)
            assert (await producer.send_and_wait(TOPIC, b"x")).offset == 0
            assert broker.count(ProduceRequest) == 2
            broker.handlers[ProduceRequest] = lambda *_: refused
            with pytest.raises(client_errors.NotLeaderOrFollowerError):
                await producer.send_and_wait(TOPIC, b"y")
            assert broker.count(ProduceRequest) == 4

    run(work())


def test_a_batch_that_is_too_large_is_split_in_order(run: Run) -> None:
    async def work() -> None:
        options: dict[str, Any] = {**ONE_EACH, "batch_size": 10_000, "linger_ms": 30_000}
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            broker.handlers[ProduceRequest] = InOrder(broker)
            await producer.send(TOPIC, b"first")
            await producer.flush()
            broker.once(ProduceRequest, lambda *_: broker.produced(ErrorCode.MESSAGE_TOO_LARGE))
            sent = [await producer.send(TOPIC, b"%d" % number * 100) for number in range(6)]
            following = await producer.send(TOPIC, b"following")
            await producer.flush()
            assert [(await one).offset for one in (*sent, following)] == [1, 2, 3, 4, 5, 6, 7]
            assert values(broker) == [b"first", *(b"%d" % number * 100 for number in range(6)), b"following"]
            assert len(broker.log) > 2
            assert sum(batch.record_count for batch in broker.log) == 8
            assert producer._accumulator.used_bytes == 0

    run(work())


def test_a_request_is_no_larger_than_allowed(run: Run) -> None:
    async def work() -> None:
        options: dict[str, Any] = {
            **ONE_EACH,
            "batch_size": 5_000,
            "linger_ms": 30_000,
            "max_request_size": 5_000,
        }
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
            broker.partitions = 4
            requests: list[list[int]] = []

            def produce(request: ProduceRequest, version: int) -> Any:
                response = broker.produced(0, 0)
                (topic,) = request.topic_data
                requests.append([len(cast("bytes", part.records)) for part in topic.partition_data])
                (usual,) = response.responses[0].partition_responses
                response.responses[0].partition_responses = [
                    type(usual)(index=part.index, error_code=0, base_offset=0)
                    for part in topic.partition_data
                ]
                return response

            broker.handlers[ProduceRequest] = produce
            for partition in range(4):
                await producer.send(TOPIC, bytes(2_000), partition=partition)
            await producer.flush()
            assert sum(map(len, requests)) == 4
            assert all(sum(sizes) <= 5_000 for sizes in requests)
            assert max(map(len, requests)) == 2, "and no smaller than possible"

    run(work())


def test_an_exhausted_epoch_requests_a_new_id(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            await producer.send_and_wait(TOPIC, b"x")
            assert producer._sender.identity is not None
            producer._sender.identity.pair = (PRODUCER_ID, MAX_EPOCH - 1)
            producer._sender.identity.bump()
            assert not producer._sender.identity.is_known
            await producer.send_and_wait(TOPIC, b"y")
            assert broker.count(InitProducerIdRequest) == 2

    run(work())


def test_batches_in_flight_are_aborted_only_on_request(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Producer(bootstrap_servers=broker.bootstrap, **ONE_EACH) as producer:
            await producer.partitions_for(TOPIC)
            broker.handlers[ProduceRequest] = lambda *_: None
            under_way, waiting = [await producer.send(TOPIC, b"x", partition=0) for _ in range(2)]
            await until(lambda: broker.count(ProduceRequest) == 1)
            error = client_errors.TransactionAbortableError("given up")
            producer._sender.abort(error, unsent_only=True)
            assert (under_way.done, waiting.error) == (False, error)
            producer._sender.abort(error, unsent_only=False)
            assert under_way.error is error
            assert producer._accumulator.used_bytes == 0

    run(work())


@pytest.mark.parametrize(("acks", "sent"), [("all", -1), ("-1", -1), ("1", 1)])
def test_acks_are_those_of_the_option(run: Run, acks: str, sent: int) -> None:
    async def work() -> None:
        async with scripted() as broker:
            options: dict[str, Any] = {"enable_idempotence": False, "acks": acks, "linger_ms": 0}
            async with Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
                await producer.send(TOPIC, b"x")
            requests = [request for request, _ in broker.requests if isinstance(request, ProduceRequest)]
            assert [request.acks for request in requests] == [sent]

    run(work())
