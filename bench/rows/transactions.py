"""Transactions: 1,000 of ten records each, by one confluent-kafka client, and by many raw clients at once.

The raw clients use transaction.version 2 (KIP-890): a produce that adds its partition, then EndTxn with the
epoch for the next transaction.  The measurement ends when a read_committed consumer can read everything.
"""

from __future__ import annotations

import selectors
import struct
import time
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import Producer

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.schema import Message
from bench import topics
from bench.apache import APACHE
from bench.paced import settle
from bench.registry import Contender, Workbench, row
from bench.servers import Server
from bench.shared import shared_servers
from tools.raw_broker import RawConnection

TRANSACTIONS = 1_000
RECORDS = 10
RECORD_BYTES = 100
PRODUCERS = 20
PARTITIONS = 4
PATIENCE_S = 60
TRANSACTION_TIMEOUT_MS = 60_000
PRODUCE_VERSION, END_VERSION, INIT_VERSION, FIND_VERSION = 12, 5, 5, 4
READ_COMMITTED = 1
RETRY_S = 0.005
# Errors of a broker that has not written all markers of the previous transaction.
NOT_YET = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_SIZE = struct.Struct(">i")


# One client -------------------------------------------------------------------------------------------------


def one_client(server: Server) -> dict[str, float]:
    host, port = server.address
    settle()
    with topics.topic(server, PARTITIONS) as topic:
        producer = Producer(
            {"bootstrap.servers": f"{host}:{port}", "transactional.id": topic, "linger.ms": 0, "log_level": 0}
        )
        producer.init_transactions(PATIENCE_S)
        value = bytes(RECORD_BYTES)
        with Measured(server, topic) as measured:
            for number in range(TRANSACTIONS):
                producer.begin_transaction()
                for _ in range(RECORDS):
                    producer.produce(topic, value, partition=number % PARTITIONS)
                producer.commit_transaction(PATIENCE_S)
        del producer
    return measured.values


# Many clients -----------------------------------------------------------------------------------------------


class RawProducer:
    """Writes and commits transactions one after the other, on its own connection."""

    def __init__(self, server: Server, topic: str, number: int, transactions: int) -> None:
        self.left = transactions
        self._topic = topic
        self._partition = number % PARTITIONS
        self._transactional_id = f"{topic}-{number}"
        self.connection = RawConnection(server.address, PATIENCE_S)
        self._producer_id, self._epoch = self._begin()
        self._received = bytearray()
        self._asked: Message = self._write()

    def _begin(self) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        while True:
            response = self.connection.ask(request, INIT_VERSION, InitProducerIdResponse)
            if response.error_code not in NOT_YET:
                assert not response.error_code, ErrorCode(response.error_code).name
                return response.producer_id, response.producer_epoch
            time.sleep(RETRY_S)

    def _write(self) -> ProduceRequest:
        now_ms = time.time_ns() // 1_000_000
        batch = build(
            [Record(n, now_ms, None, bytes(RECORD_BYTES)) for n in range(RECORDS)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=0,
            transactional=True,
        )
        part = ProduceRequest.PartitionProduceData(index=self._partition, records=bytes(batch))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=PATIENCE_S * 1000,
            topic_data=[ProduceRequest.TopicProduceData(name=self._topic, partition_data=[part])],
        )

    def ask(self) -> None:
        version = PRODUCE_VERSION if isinstance(self._asked, ProduceRequest) else END_VERSION
        self.connection.send(write_request(self._asked, version, 1, "bench"))

    def receive(self) -> bool:
        """Whether a complete response has arrived; the next request is then ready."""
        received = self._received
        received += self.connection.socket.recv(1 << 16)
        if len(received) < _SIZE.size or len(received) < _SIZE.size + _SIZE.unpack_from(received)[0]:
            return False
        frame = bytes(received[_SIZE.size :])
        received.clear()
        if isinstance(self._asked, ProduceRequest):
            _, written = read_response(frame, api(0), PRODUCE_VERSION)
            assert isinstance(written, ProduceResponse)
            self._take(written.responses[0].partition_responses[0].error_code, self._end)
        else:
            _, ended = read_response(frame, api(26), END_VERSION)
            assert isinstance(ended, EndTxnResponse)
            if not ended.error_code:
                self._producer_id, self._epoch = ended.producer_id, ended.producer_epoch
                self.left -= 1
            self._take(ended.error_code, self._write)
        return True

    def _take(self, code: int, then: Callable[[], Message]) -> None:
        if code in NOT_YET:
            time.sleep(RETRY_S)
            return
        assert not code, ErrorCode(code).name
        self._asked = then()

    def _end(self) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )


def many_clients(server: Server) -> dict[str, float]:
    settle()
    await_coordinator(server)
    with topics.topic(server, PARTITIONS) as topic, selectors.DefaultSelector() as selector:
        share = TRANSACTIONS // PRODUCERS
        producers = [RawProducer(server, topic, number, share) for number in range(PRODUCERS)]
        with Measured(server, topic) as measured:
            for producer in producers:
                selector.register(producer.connection.socket, selectors.EVENT_READ, producer)
                producer.ask()
            while selector.get_map():
                for key, _ in selector.select():
                    producer = key.data
                    if producer.receive():
                        if producer.left:
                            producer.ask()
                        else:
                            selector.unregister(producer.connection.socket)
        for producer in producers:
            producer.connection.socket.close()
    return measured.values


def await_coordinator(server: Server) -> None:
    """The first request creates the internal topic."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["bench"])
    until = time.monotonic() + PATIENCE_S
    with RawConnection(server.address, PATIENCE_S) as connection:
        while connection.ask(request, FIND_VERSION, FindCoordinatorResponse).coordinators[0].error_code:
            assert time.monotonic() < until, "no coordinator of transactions"
            time.sleep(0.05)


# Measurement ------------------------------------------------------------------------------------------------


class Measured:
    """Measures until everything committed can be read."""

    def __init__(self, server: Server, topic: str) -> None:
        self._server = server
        self._topic = topic
        self.values: dict[str, float] = {}

    def __enter__(self) -> Measured:
        self._cpu_s = self._server.cpu_seconds
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        # Each transaction writes its records and a marker.
        while stable_records(self._server, self._topic) < TRANSACTIONS * (RECORDS + 1):
            time.sleep(0.001)
        seconds = time.perf_counter() - self._start
        self.values = {
            "per second": TRANSACTIONS / seconds,
            "cpu": (self._server.cpu_seconds - self._cpu_s) * 1000,
        }


def stable_records(server: Server, topic: str) -> int:
    """The sum of the last stable offsets."""
    rows = [
        ListOffsetsRequest.Partition(partition_index=index, timestamp=topics.LATEST)
        for index in range(PARTITIONS)
    ]
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsRequest.Topic(name=topic, partitions=rows)],
    )
    with RawConnection(server.address, PATIENCE_S) as connection:
        response = connection.ask(request, topics.LIST_OFFSETS_VERSION, ListOffsetsResponse)
    return sum(partition.offset for partition in response.topics[0].partitions)


RATE = partial(row, unit="transactions/s", goal=1, floor=0.7, against=APACHE, value="per second")
CPU = partial(row, unit="ms", higher_is_better=False, goal=1, floor=1.4, against=APACHE, value="cpu")


@RATE("transactions", "1,000 transactions of ten records by one confluent-kafka producer")
@CPU(
    "transactions-cpu", "1,000 transactions of ten records by one confluent-kafka producer: CPU of the broker"
)
def transactions(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, one_client)


@RATE("transactions-many", "1,000 transactions of ten records, 20 producers at once")
@CPU("transactions-many-cpu", "1,000 transactions of ten records, 20 producers at once: CPU of the broker")
def transactions_many(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, many_clients)


def contenders(bench: Workbench, run: Callable[[Server], dict[str, float]]) -> Mapping[str, Contender]:
    servers = shared_servers(bench.context)
    return {name: partial(run, server) for name, server in servers.items()}
