"""The load by confluent-kafka (librdkafka)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from barnabas.testing.histories.events import Isolation, Partition
from tools.nemesis.clients import (
    CALL_S,
    CLASSIC,
    NO_DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    AbortableError,
    ConsumerClient,
    FatalError,
    OnAssigned,
    OnDelivery,
    ProducerClient,
    Record,
    RefusedError,
    RetriableError,
    membership,
)

MAX_POLLED = 500
# How many messages about epoch bumps are kept.
MAX_BUMPS = 1000
# A call that takes so long, with a limit of CALL_S, does not return.
HANGS_S = 3 * CALL_S


def _config(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "socket.timeout.ms": REQUEST_TIMEOUT_MS,
        "socket.connection.setup.timeout.ms": REQUEST_TIMEOUT_MS,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 5000,
        "log_level": 0,
        "error_cb": lambda _: None,
    }


class _EpochBumps(logging.Logger):
    """Keeps what librdkafka says when it bumps its producer epoch, which may duplicate records."""

    def __init__(self, bumps: list[str]) -> None:
        super().__init__("librdkafka")
        self._bumps = bumps

    def log(self, level: int, msg: object, *args: object, **_: Any) -> None:
        text = str(msg) % args if args else str(msg)
        if "DRAIN" in text and len(self._bumps) < MAX_BUMPS:
            self._bumps.append(f"{time.strftime('%H:%M:%S')} {text}")


class ConfluentProducer:
    def __init__(
        self, bootstrap: str, transactional_id: str | None, bumps: list[str], hangs: list[str]
    ) -> None:
        self._hangs = hangs
        config = _config(bootstrap) | {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": NO_DELIVERY_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
        }
        if transactional_id is None:
            # Debug messages of its idempotence are few, and the only ones that say why it bumps its epoch.
            config |= {"debug": "eos", "log_level": 7, "logger": _EpochBumps(bumps)}
        else:
            config |= {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        self._fatal: KafkaError | None = None
        self._producer = Producer(config | {"error_cb": self._on_error})

    def send(self, partition: Partition, payload: bytes, on_delivery: OnDelivery) -> None:
        if self._fatal is not None:
            raise FatalError(str(self._fatal))

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                on_delivery(None, error.name())
            else:
                offset = message.offset()
                on_delivery(offset if offset is not None and offset >= 0 else None, None)

        topic, number = partition
        try:
            self._producer.produce(topic, payload, partition=number, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            raise RefusedError(str(error)) from error
        finally:
            self._producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)

    def init_transactions(self) -> None:
        self._call(self._producer.init_transactions, 3 * CALL_S)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, CALL_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, CALL_S)

    def send_offsets(self, consumer: ConsumerClient, offsets: Mapping[Partition, int]) -> None:
        assert isinstance(consumer, ConfluentConsumer)
        given = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        method, arguments = self._producer.send_offsets_to_transaction, (given, consumer.metadata(), CALL_S)
        try:
            self._call(_watched, HANGS_S, method, *arguments)
        except TimeoutError as error:
            self._hangs.append("send_offsets_to_transaction")
            raise FatalError(str(error)) from error

    def close(self) -> None:
        # What was not sent yet is dropped, and reported as failed.
        self._producer.purge()
        self._producer.flush(1)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    @staticmethod
    def _call(method: Any, *arguments: object) -> None:
        try:
            method(*arguments)
        except KafkaException as error:
            _raise(error)


def _watched(limit_s: float, method: Any, *arguments: object) -> None:
    """A call that may not return, in a thread that is left behind then.

    librdkafka waits in send_offsets_to_transaction for a group coordinator that it has decommissioned, since
    metadata lacked it for a moment, until some connection changes its state; and it does not look at the
    time limit (librdkafka issues 5511 and 5456; tests/verify/replication/test_replication_librdkafka.py has
    it on Apache Kafka).
    """
    outcome: SimpleQueue[KafkaException | None] = SimpleQueue()

    def call() -> None:
        try:
            method(*arguments)
        except KafkaException as error:
            outcome.put(error)
        else:
            outcome.put(None)

    threading.Thread(target=call, daemon=True, name=f"{threading.current_thread().name}-call").start()
    try:
        error = outcome.get(timeout=limit_s)
    except Empty:
        raise TimeoutError(f"{method.__name__} has not returned within {limit_s:.0f} s") from None
    if error is not None:
        raise error


def _raise(error: KafkaException) -> NoReturn:
    cause = error.args[0]
    if cause.fatal():
        raise FatalError(str(cause)) from error
    if cause.txn_requires_abort():
        raise AbortableError(str(cause)) from error
    if cause.retriable():
        raise RetriableError(str(cause)) from error
    raise FatalError(str(cause)) from error


def _record(message: Any) -> Record:
    return (message.topic(), message.partition()), message.offset(), message.value()


class ConfluentConsumer:
    def __init__(self, bootstrap: str, isolation: Isolation, group: str | None, protocol: str) -> None:
        self._consumer = Consumer(
            _config(bootstrap)
            | membership(protocol)
            | {
                "group.id": group or "without-a-group",
                "isolation.level": isolation.value,
                "enable.auto.commit": False,
                # A consumer without a group never asks: it would hide that records are lost.
                "auto.offset.reset": "error" if group is None else "earliest",
                "fetch.wait.max.ms": 200,
            }
        )
        self._is_member = False

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self._consumer.assign(
            [TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]
        )

    def subscribe(self, topics: Sequence[str], on_assigned: OnAssigned) -> None:
        def assigned(_: object, partitions: Sequence[TopicPartition]) -> None:
            on_assigned([(each.topic, each.partition) for each in partitions])

        def revoked(*_: object) -> None:
            on_assigned([])

        self._is_member = True
        self._consumer.subscribe(list(topics), on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def poll(self, timeout_s: float) -> Sequence[Record]:
        records: list[Record] = []
        for message in self._consumer.consume(MAX_POLLED, timeout_s):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise FatalError(str(error))
        return records

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        given = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        try:
            self._consumer.commit(offsets=given, asynchronous=False)
        except KafkaException as error:
            raise RetriableError(str(error.args[0])) from error

    def rewind(self) -> None:
        try:
            committed = self._consumer.committed(self._consumer.assignment(), CALL_S)
            for each in committed:
                self._consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
        except KafkaException as error:
            raise FatalError(str(error.args[0])) from error

    def metadata(self) -> object:
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Gives its partitions back first.

        A rebalance that waits when a consumer is closed may hang in rd_kafka_assign() for ever, with Python's
        interpreter lock held, so that the whole process stands still (librdkafka issue 4884).
        """
        if self._is_member:
            self._consumer.unsubscribe()
            limit = time.monotonic() + CALL_S
            while self._consumer.assignment() and time.monotonic() < limit:
                # What it returns is not processed: nobody commits it.
                self._consumer.poll(0.05)
        self._consumer.close()


class Confluent:
    name = "confluent-kafka"

    def __init__(self, protocol: str = CLASSIC) -> None:
        self.epoch_bumps: list[str] = []
        # The calls that did not return.
        self.hangs: list[str] = []
        self._protocol = protocol

    def producer(self, bootstrap: str, transactional_id: str | None = None) -> ProducerClient:
        return ConfluentProducer(bootstrap, transactional_id, self.epoch_bumps, self.hangs)

    def consumer(self, bootstrap: str, isolation: Isolation, group: str | None = None) -> ConsumerClient:
        return ConfluentConsumer(bootstrap, isolation, group, self._protocol)
