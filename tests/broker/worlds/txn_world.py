"""Transactions on a broker without a network: requests by hand, a clock that tests move."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.batch.build import build
from barnabas.batch.control import batch_marker
from barnabas.batch.records import Record
from barnabas.batch.view import batches
from barnabas.broker.coordinators.coordinators import Coordinators
from barnabas.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    produce,
    write_txn_markers,
)
from barnabas.broker.peers.broker_channel import BrokerChannel
from barnabas.broker.peers.peer_connection import Done, MakeRequest, PeerError
from barnabas.coordinator.txn.transaction import TRANSACTION_VERSION, Transaction
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.protocol.apis import api
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.data_world import BROKER, T0, World
from tests.coordinator.shard_world import PENDING

TIMEOUT_MS = 60_000
PARTITIONS = 4
COMMIT, ABORT = True, False


class Sent(NamedTuple):
    """A request to another broker."""

    broker_id: int
    request: Any
    done: Done

    def answer(self, response: Message) -> None:
        self.done(response, None)

    def fail(self, error: Exception | None = None) -> None:
        self.done(None, error or PeerError("it is gone"))


class FakeChannel:
    """Keeps requests to other brokers until the test answers them; the newest version of each."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.version: int | None = None
        self.is_closed = False
        # How often connections to dead brokers were closed.
        self.checks = 0

    def send(self, broker_id: int, key: int, make: MakeRequest, done: Done, timeout_ms: int) -> None:
        version = api(key).stable if self.version is None else self.version
        try:
            request = make(version)
        except Exception as error:
            done(None, error)
            return
        wire = type(request).decode(bytearray(request.encode(version)), version)
        self.sent.append(Sent(broker_id, wire, done))

    def take(self) -> Sent:
        """The only request that waits."""
        (sent,) = self.sent
        self.sent.clear()
        return sent

    def disconnect_dead_brokers(self) -> None:
        self.checks += 1

    def close(self) -> None:
        self.is_closed = True


class TxnWorld(World):
    """With a topic `orders`, and the coordinators' topics; at the newest transaction.version."""

    def __init__(
        self, *, level: int = 2, image: Image | None = None, topics: bool = True, **more: Any
    ) -> None:
        self.coordinators: Coordinators | None = None
        # What comes, or has come, as the answer to the last question.
        self.late: list[Any] = []
        super().__init__(**more, start=False)
        if image is not None:
            self.image = image
        # The connections to other brokers, by purpose.
        self.channels: dict[str, FakeChannel] = {}
        self.coordinators = Coordinators(self, self.replicas, self.timers, self._channel)  # type: ignore[arg-type]
        self.start()
        if image is None and topics:
            self.change(records.FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=level))
            self.topic(TRANSACTION_STATE, PARTITIONS)
            self.topic(CONSUMER_OFFSETS, PARTITIONS)
            self.topic("orders", 4)
        for _ in range(100):
            self.tick(1)
        assert not self.transactions.shards.is_loading

    def _channel(self, purpose: str) -> BrokerChannel:
        channel = self.channels[purpose] = FakeChannel()
        return cast("BrokerChannel", channel)

    @property
    def transactions(self) -> Any:
        assert self.coordinators is not None
        return self.coordinators.transactions

    @property
    def groups(self) -> Any:
        assert self.coordinators is not None
        return self.coordinators.groups

    def change(self, *changes: Message) -> None:
        before = self.image
        super().change(*changes)
        if self.coordinators is not None:
            delta = Delta(before)
            for change in changes:
                delta.replay(change)
            self.coordinators.apply(delta)

    # What producers ask; the newest versions by default

    def init(self, name: str = "shop", version: int = 5, **more: Any) -> Any:
        fields = {"transaction_timeout_ms": TIMEOUT_MS, **more}
        return self.answer(init_producer_id, InitProducerIdRequest(transactional_id=name, **fields), version)

    def add(
        self, *indexes: int, pid: int = 0, epoch: int = 0, name: str = "shop", topic: str = "orders"
    ) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name=topic, partitions=list(indexes))],
        )
        answer = self.answer(add_partitions_to_txn, request, 3)
        return [
            ErrorCode(one.partition_error_code)
            for one in answer.results_by_topic_v3_and_below[0].results_by_partition
        ]

    def add_offsets(self, group: str, *, pid: int = 0, epoch: int = 0, name: str = "shop") -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=pid, producer_epoch=epoch, group_id=group
        )
        return ErrorCode(self.answer(add_offsets_to_txn, request, 4).error_code)

    def write(
        self,
        index: int = 0,
        *values: str,
        pid: int = 0,
        epoch: int = 0,
        sequence: int = 0,
        name: str = "shop",
        version: int = 12,
    ) -> Any:
        """The answer of the partition, PENDING until there is one."""
        texts = values or ("v",)
        rows = [Record(number, T0, None, text.encode()) for number, text in enumerate(texts)]
        batch = build(rows, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        part = ProduceRequest.PartitionProduceData(index=index, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=[part])],
        )
        answer = self.answer(produce, request, version)
        return answer if answer is PENDING else answer.responses[0].partition_responses[0]

    def end(self, commit: bool, *, pid: int = 0, epoch: int = 0, name: str = "shop", version: int = 5) -> Any:
        request = EndTxnRequest(
            transactional_id=name, producer_id=pid, producer_epoch=epoch, committed=commit
        )
        return self.answer(end_txn, request, version)

    def marker(
        self,
        commit: bool,
        *indexes: int,
        pid: int = 0,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        topic: str = "orders",
    ) -> Any:
        """By an administrator, or by a coordinator elsewhere."""
        request = WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=pid,
                    producer_epoch=epoch,
                    transaction_result=commit,
                    topics=[
                        WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                            name=topic, partition_indexes=list(indexes)
                        )
                    ],
                    coordinator_epoch=coordinator_epoch,
                )
            ]
        )
        return self.answer(write_txn_markers, request, 1)

    def listed(self, **fields: Any) -> Any:
        request = ListTransactionsRequest(**{"state_filters": [], "producer_id_filters": [], **fields})
        return self.answer(list_transactions, request, 2)

    def described(self, *names: str) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=list(names))
        return self.answer(describe_transactions, request, 0).transaction_states

    def answer(self, handler: Any, request: Message, version: int) -> Any:
        """As dispatch gives it: a refusal in the API's own form."""
        found: list[Any] = []

        def refuse(error: BaseException) -> None:
            assert isinstance(error, KafkaError), error
            found.append(handler.refuse(request, error.code, error.message))

        try:
            answer = self.ask(handler, request, version)
        except KafkaError as error:
            refuse(error)
        else:
            if isinstance(answer, Promise):
                answer.then(found.append, refuse)
            else:
                found.append(answer)
        self.late = found
        return found[0] if found else PENDING

    # What there is

    def state(self, name: str = "shop") -> str:
        return str(self.described(name)[0].transaction_state)

    def known(self, name: str = "shop") -> Transaction:
        for machine in self.transactions.shards.machines():
            transaction: Transaction | None = machine.transactions.get(name)
            if transaction is not None:
                return transaction
        raise LookupError(name)

    def markers_in(self, index: int = 0, topic: str = "orders") -> list[tuple[int, int, bool]]:
        """Offset, epoch and outcome of each."""
        log = self.replicas.partitions[topic, index].log
        assert log is not None
        if log.end_offset == log.log_start_offset:
            return []
        result = log.read(log.log_start_offset, 1 << 20, upper_bound=log.end_offset)
        assert result.slice is not None
        found = []
        for batch in batches(result.slice.read()):
            marker = batch_marker(batch) if batch.is_control else None
            if marker is not None:
                found.append((batch.base_offset, batch.producer_epoch, marker.commit))
        return found


def open_with_slow_partition(world: TxnWorld) -> None:
    """A transaction over `orders` and a partition whose follower has not caught up."""
    world.topic("slow", replicas=(BROKER, 2))
    world.init()
    assert world.add(0) == [ErrorCode.NONE]
    assert world.add(0, topic="slow") == [ErrorCode.NONE]


def follower_catches_up(world: TxnWorld) -> None:
    hosted = world.replicas.partitions["slow", 0]
    hosted.follower_fetched(
        hosted.follower(2, knows_epoch=True),
        hosted.log.end_offset,  # type: ignore[union-attr]  # it is led here
        log_start_offset=0,
        broker_epoch=100,
        now_ns=world.clock.monotonic_ns(),
    )
    world.replicas.purgatory.changed(hosted)
    world.tick()
