"""A scripted cluster for one test: leaders and coordinators move when told, and answers come late when told.

It keeps the rules by which a client must play.  Only the leader appends, each producer's batches in the order of
their sequence numbers, and a batch that it has already is appended no second time.  Only the coordinator of a
transactional id knows its transaction: below transaction.version 2 partitions are added first, from there on
every transaction has its own epoch.  What one node has done, all know, as if it were replicated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode
from barnabas.batch.view import BatchView
from barnabas.client.producer.sequences import sequence_after
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.protocol.schema import Message
from tests.client.scripted import PRODUCER_ID, TOPIC, TOPIC_ID, Answer, ScriptedBroker

IMPLICIT_LEVEL = 2
# As many batches of a producer as a broker recognizes.
RECENT = 5


@dataclass
class Transaction:
    """What is known of a transactional id."""

    epoch: int = -1
    is_open: bool = False
    has_partition: bool = False
    batches: list[BatchView] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    # How the transactions ended: whether committed.
    ends: list[bool] = field(default_factory=list)


class Node(ScriptedBroker):
    """One node of the cluster."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        super().__init__()
        self._cluster = cluster
        self.node_id = node_id
        self.log = cluster.log
        self._late: type[Message] | None = None
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.handlers[AddPartitionsToTxnRequest] = self.add_partitions
        self.handlers[AddOffsetsToTxnRequest] = self.add_offsets
        self.handlers[TxnOffsetCommitRequest] = self.commit_offsets
        self.handlers[EndTxnRequest] = self.end_transaction

    # ------------------------------------------------------------------------------------------- late answers

    def hold(self, kind: type[Message]) -> None:
        """Do what the next request of this type asks for, but keep the answer, and those behind it."""
        self._late = kind

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def release(self) -> None:
        held, self._held = self._held, []
        for writer, data in held:
            writer.write(data)

    def deliver(self, writer: asyncio.StreamWriter, kind: type[Message], data: bytes) -> None:
        if kind is self._late:
            self._late = None
            self._held.append((writer, data))
        elif any(held is writer for held, _ in self._held):
            self._held.append((writer, data))
        else:
            writer.write(data)

    def hang_up(self) -> None:
        self._held.clear()
        super().hang_up()

    # ---------------------------------------------------------------------------------------------- responses

    def api_versions(self, request: ApiVersionsRequest, version: int) -> Answer:
        response = super().api_versions(request, version)
        assert isinstance(response, ApiVersionsResponse)
        level = self._cluster.transaction_version
        response.finalized_features = [
            ApiVersionsResponse.FinalizedFeatureKey(
                name="transaction.version", max_version_level=level, min_version_level=level
            )
        ]
        response.finalized_features_epoch = 1
        return response

    def metadata(self, request: MetadataRequest, version: int) -> Answer:
        cluster = self._cluster
        partition = MetadataResponse.Partition(
            error_code=0,
            partition_index=0,
            leader_id=cluster.leader,
            leader_epoch=cluster.leader_epoch,
            replica_nodes=sorted(cluster.nodes),
            isr_nodes=sorted(cluster.nodes),
        )
        topic = MetadataResponse.Topic(error_code=0, name=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        brokers = [
            MetadataResponse.Broker(node_id=node.node_id, host="127.0.0.1", port=node.port)
            for node in cluster.nodes.values()
        ]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])

    def find_coordinator(self, request: FindCoordinatorRequest, version: int) -> Answer:
        found = []
        for key in request.coordinator_keys:
            node = self._cluster.nodes[self._cluster.coordinators.get(key, 1)]
            found.append(
                FindCoordinatorResponse.Coordinator(
                    key=key,
                    node_id=node.node_id,
                    host="127.0.0.1",
                    port=node.port,
                    error_code=0,
                    error_message=None,
                )
            )
        return FindCoordinatorResponse(coordinators=found)

    def produce(self, request: ProduceRequest, version: int) -> Answer:
        if self._cluster.leader != self.node_id:
            return self.produced(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.produced(*self._cluster.append(request, self))

    def init_producer_id(self, request: InitProducerIdRequest, version: int) -> Answer:
        code, epoch = 0, 0
        if request.transactional_id is not None:
            code = self._coordinates(request.transactional_id)
            if not code:
                transaction = self._cluster.transactions.setdefault(request.transactional_id, Transaction())
                self._cluster.end(transaction, committed=False)
                transaction.epoch += 1
                epoch = transaction.epoch
        return InitProducerIdResponse(
            throttle_time_ms=0,
            error_code=code,
            producer_id=-1 if code else PRODUCER_ID,
            producer_epoch=-1 if code else epoch,
        )

    def add_partitions(self, request: AddPartitionsToTxnRequest, version: int) -> Answer:
        name = request.v3_and_below_transactional_id
        code = self._coordinates(name) or self._cluster.begin(name, request.v3_and_below_producer_epoch)
        part = AddPartitionsToTxnResponse.PartitionResult(partition_index=0, partition_error_code=code)
        topic = AddPartitionsToTxnResponse.TopicResult(name=TOPIC, results_by_partition=[part])
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=[topic])

    def add_offsets(self, request: AddOffsetsToTxnRequest, version: int) -> Answer:
        name = request.transactional_id
        code = self._coordinates(name) or self._cluster.begin(name, request.producer_epoch)
        return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)

    def commit_offsets(self, request: TxnOffsetCommitRequest, version: int) -> Answer:
        code = self._coordinates(request.group_id)
        if not code and self._cluster.transaction_version >= IMPLICIT_LEVEL:
            code = self._cluster.begin(request.transactional_id, request.producer_epoch)
        if not code:
            (topic,) = request.topics
            (part,) = topic.partitions
            self._cluster.transactions[request.transactional_id].offsets.append(part.committed_offset)
        found = TxnOffsetCommitResponse.Partition(partition_index=0, error_code=code)
        return TxnOffsetCommitResponse(
            throttle_time_ms=0, topics=[TxnOffsetCommitResponse.Topic(name=TOPIC, partitions=[found])]
        )

    def end_transaction(self, request: EndTxnRequest, version: int) -> Answer:
        code = self._coordinates(request.transactional_id)
        epoch = -1
        if not code:
            code, epoch = self._cluster.ended(request)
        producer_id = PRODUCER_ID if epoch >= 0 else -1
        return EndTxnResponse(
            throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch
        )

    def _coordinates(self, key: str) -> int:
        is_here = self._cluster.coordinators.get(key, 1) == self.node_id
        return ErrorCode.NONE if is_here else ErrorCode.NOT_COORDINATOR


class ScriptedCluster:
    """Its nodes, numbered from 1, and what they have in common."""

    def __init__(self, count: int, transaction_version: int) -> None:
        self.transaction_version = transaction_version
        self.log: list[BatchView] = []
        self.leader, self.leader_epoch = 1, 0
        self.coordinators: dict[str, int] = {}
        self.transactions: dict[str, Transaction] = {}
        # Of the records that transactions have committed.
        self.committed: list[bytes | None] = []
        self.committed_offsets: list[int] = []
        # The batches that it would recognize.
        self.recent: list[BatchView] = []
        # The sequence number that each producer and epoch has to send next.
        self.expected: dict[tuple[int, int], int] = {}
        self.nodes = {number: Node(self, number) for number in range(1, count + 1)}

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for batch in self.log for record in batch.records()]

    def count(self, kind: type[Message]) -> int:
        return sum(node.count(kind) for node in self.nodes.values())

    def lead(self, node_id: int) -> None:
        self.leader = node_id
        self.leader_epoch += 1

    # ------------------------------------------------------------------------------------------- the partition

    def append(self, request: ProduceRequest, node: Node) -> tuple[int, int]:
        """The error code, and the offset of the batch."""
        ((part,),) = (topic.partition_data for topic in request.topic_data)
        assert isinstance(part.records, bytes | bytearray | memoryview)
        batch = BatchView(bytes(part.records))
        producer = (batch.producer_id, batch.producer_epoch)
        for old in self.recent:
            if (old.producer_id, old.producer_epoch, old.base_sequence) == (*producer, batch.base_sequence):
                return ErrorCode.NONE, old.base_offset
        if batch.base_sequence != self.expected.get(producer, 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        transaction = self.transactions.get(request.transactional_id or "")
        if transaction is not None:
            code = self._is_in_transaction(request.transactional_id or "", transaction, batch)
            if code:
                return code, -1
        base_offset = node.take(request)
        self.recent = [*self.recent, self.log[-1]][-RECENT:]
        self.expected[producer] = sequence_after(batch.base_sequence, batch.record_count)
        for other in self.nodes.values():
            other._next_offset = node._next_offset
        if transaction is not None:
            transaction.batches.append(self.log[-1])
        return ErrorCode.NONE, base_offset

    def _is_in_transaction(self, name: str, transaction: Transaction, batch: BatchView) -> int:
        if batch.producer_epoch < transaction.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.transaction_version >= IMPLICIT_LEVEL:
            return self.begin(name, batch.producer_epoch)
        return ErrorCode.NONE if transaction.is_open else ErrorCode.INVALID_TXN_STATE

    # ----------------------------------------------------------------------------------------- the transactions

    def begin(self, name: str, epoch: int) -> int:
        transaction = self.transactions[name]
        if epoch != transaction.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        transaction.is_open = True
        return ErrorCode.NONE

    def ended(self, request: EndTxnRequest) -> tuple[int, int]:
        """The error code, and from transaction.version 2 on the epoch of the next transaction."""
        transaction = self.transactions[request.transactional_id]
        is_implicit = self.transaction_version >= IMPLICIT_LEVEL
        is_again = request.producer_epoch == transaction.epoch - is_implicit and not transaction.is_open
        if is_again and transaction.ends[-1:] == [request.committed]:
            return ErrorCode.NONE, transaction.epoch if is_implicit else -1
        if request.producer_epoch != transaction.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if not transaction.is_open:
            return ErrorCode.INVALID_TXN_STATE, -1
        self.end(transaction, committed=request.committed)
        transaction.epoch += is_implicit
        return ErrorCode.NONE, transaction.epoch if is_implicit else -1

    def end(self, transaction: Transaction, *, committed: bool) -> None:
        if not transaction.is_open:
            return
        if committed:
            self.committed += [record.value for batch in transaction.batches for record in batch.records()]
            self.committed_offsets += transaction.offsets
        transaction.ends.append(committed)
        transaction.batches, transaction.offsets, transaction.is_open = [], [], False


@asynccontextmanager
async def scripted_cluster(
    count: int = 2, *, transaction_version: int = IMPLICIT_LEVEL
) -> AsyncIterator[ScriptedCluster]:
    cluster = ScriptedCluster(count, transaction_version)
    for node in cluster.nodes.values():
        await node.start()
    try:
        yield cluster
    finally:
        for node in cluster.nodes.values():
            await node.stop()
