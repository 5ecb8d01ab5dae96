"""The load by the client library of this project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client import OffsetAndMetadata, RecordMetadata, TopicPartition
from barnabas.client.errors import RetriableError as ClientRetriableError
from barnabas.client.errors.data import OffsetOutOfRangeError
from barnabas.client.sync import Consumer, Producer
from barnabas.testing.histories.events import Isolation, Partition
from tools.nemesis.clients import (
    CALL_S,
    CLASSIC,
    DELIVERY_TIMEOUT_MS,
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

CALL_MS = int(CALL_S * 1000)
# After these a producer cannot continue.
FATAL = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


class OwnProducer:
    def __init__(self, bootstrap: str, transactional_id: str | None) -> None:
        config: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "max.block.ms": CALL_MS,
            "reconnect.backoff.max.ms": 1000,
            "metadata.max.age.ms": 5000,
        }
        if transactional_id is not None:
            config |= {"transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        self._producer = Producer(config)

    def send(self, partition: Partition, payload: bytes, on_delivery: OnDelivery) -> None:
        def delivered(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            offset = metadata.offset if metadata is not None and metadata.offset >= 0 else None
            on_delivery(offset, None if error is None else type(error).__name__)

        topic, number = partition
        try:
            self._producer.send(topic, payload, partition=number, on_delivery=delivered)
        except (KafkaError, ValueError) as error:
            raise RefusedError(str(error)) from error

    def flush(self, timeout_s: float) -> None:
        try:
            self._producer.flush(timeout_ms=int(timeout_s * 1000))
        except KafkaError as error:
            _raise(error)

    def init_transactions(self) -> None:
        self._call(partial(self._producer.init_transactions, timeout_ms=3 * CALL_MS))

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def commit(self) -> None:
        self._call(partial(self._producer.commit_transaction, timeout_ms=CALL_MS))

    def abort(self) -> None:
        self._call(partial(self._producer.abort_transaction, timeout_ms=CALL_MS))

    def send_offsets(self, consumer: ConsumerClient, offsets: Mapping[Partition, int]) -> None:
        assert isinstance(consumer, OwnConsumer)
        given = {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in offsets.items()}
        metadata = consumer.metadata()
        self._call(partial(self._producer.send_offsets_to_transaction, given, metadata, timeout_ms=CALL_MS))

    def close(self) -> None:
        try:
            self._producer.close(timeout_ms=1000)
        except KafkaError:
            return

    @staticmethod
    def _call(method: Any) -> None:
        try:
            method()
        except KafkaError as error:
            _raise(error)


def _raise(error: KafkaError) -> NoReturn:
    text = f"{type(error).__name__}: {error}"
    if error.code in FATAL:
        raise FatalError(text) from error
    if isinstance(error, ClientRetriableError):
        raise RetriableError(text) from error
    raise AbortableError(text) from error


def _record(record: Any) -> Record:
    return (record.topic, record.partition), record.offset, bytes(record.value)


class OwnConsumer:
    def __init__(self, bootstrap: str, isolation: Isolation, group: str | None, protocol: str) -> None:
        config: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "isolation.level": isolation.value,
            "enable.auto.commit": False,
            "auto.offset.reset": "none" if group is None else "earliest",
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 1000,
            "metadata.max.age.ms": 5000,
            "fetch.max.wait.ms": 200,
        }
        if group is not None:
            config |= {"group.id": group, **membership(protocol)}
        self._consumer = Consumer(config)

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self._consumer.assign([TopicPartition(*where) for where in positions])
        for where, offset in positions.items():
            self._consumer.seek(TopicPartition(*where), offset)

    def subscribe(self, topics: Sequence[str], on_assigned: OnAssigned) -> None:
        self._consumer.subscribe(list(topics), listener=_Listener(self._consumer, on_assigned))

    def poll(self, timeout_s: float) -> Sequence[Record]:
        try:
            records = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        except OffsetOutOfRangeError as error:
            raise FatalError(f"{type(error).__name__}: {error}") from error
        except KafkaError as error:
            raise RetriableError(f"{type(error).__name__}: {error}") from error
        return [_record(each) for each in records]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        given = {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in offsets.items()}
        try:
            self._consumer.commit(given, timeout_ms=CALL_MS)
        except KafkaError as error:
            raise RetriableError(f"{type(error).__name__}: {error}") from error

    def rewind(self) -> None:
        try:
            partitions = self._consumer.assignment()
            committed = self._consumer.committed(partitions, timeout_ms=CALL_MS)
            for where, offset in committed.items():
                self._consumer.seek(where, 0 if offset is None else offset.offset)
        except KafkaError as error:
            raise FatalError(f"{type(error).__name__}: {error}") from error

    def metadata(self) -> Any:
        return self._consumer.group_metadata()

    def close(self) -> None:
        try:
            self._consumer.close(timeout_ms=3000)
        except KafkaError:
            return


class _Listener:
    def __init__(self, consumer: Consumer, on_assigned: OnAssigned) -> None:
        self._consumer = consumer
        self._on_assigned = on_assigned

    def on_partitions_assigned(self, _: list[TopicPartition]) -> None:
        self._changed()

    def on_partitions_revoked(self, _: list[TopicPartition]) -> None:
        self._changed()

    def on_partitions_lost(self, _: list[TopicPartition]) -> None:
        self._changed()

    def _changed(self) -> None:
        self._on_assigned([(each.topic, each.partition) for each in self._consumer.assignment()])


class Own:
    name = "barnabas"

    def __init__(self, protocol: str = CLASSIC) -> None:
        self._protocol = protocol

    def producer(self, bootstrap: str, transactional_id: str | None = None) -> ProducerClient:
        return OwnProducer(bootstrap, transactional_id)

    def consumer(self, bootstrap: str, isolation: Isolation, group: str | None = None) -> ConsumerClient:
        return OwnConsumer(bootstrap, isolation, group, self._protocol)
