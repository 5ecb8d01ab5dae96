"""A cluster whose leaders and coordinators move, and whose answers come late or never: every record once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.batch.view import MAX_SEQUENCE
from barnabas.client import ConsumerGroupMetadata, OffsetAndMetadata, Producer, TopicPartition
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.live.work import until
from tests.client.scripted import PRODUCER_ID, TOPIC
from tests.client.scripted_cluster import ScriptedCluster, scripted_cluster

Run = Callable[[Any], Any]
WHERE = TopicPartition(TOPIC, 0)
GROUP = ConsumerGroupMetadata("g")
QUICK: dict[str, Any] = {
    "linger_ms": 0,
    "batch_size": 1,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
}
VERSIONS = (0, 1, 2)
OTHER = {1: 2, 2: 1}


def test_a_leader_moves_between_batches(run: Run) -> None:
    async def work() -> None:
        async with (
            scripted_cluster() as cluster,
            Producer(bootstrap_servers=cluster.bootstrap, **QUICK) as producer,
        ):
            for number in range(6):
                cluster.lead(1 + number % 2)
                metadata = await producer.send_and_wait(TOPIC, b"%d" % number)
                assert metadata.offset == number
            assert cluster.values == [b"%d" % number for number in range(6)]

    run(work())


def test_a_leader_moves_after_it_has_written_and_before_it_answers(run: Run) -> None:
    """The new leader knows the batch, and says where it is."""

    async def work() -> None:
        async with (
            scripted_cluster() as cluster,
            Producer(bootstrap_servers=cluster.bootstrap, **QUICK) as producer,
        ):
            await producer.send_and_wait(TOPIC, b"first")
            old = cluster.nodes[1]
            old.hold(ProduceRequest)
            deliveries = [await producer.send(TOPIC, value) for value in (b"late", b"later")]
            await until(lambda: old.is_holding)
            cluster.lead(2)
            old.hang_up()
            assert [(await delivery).offset for delivery in deliveries] == [1, 2]
            assert cluster.values == [b"first", b"late", b"later"]

    run(work())


def test_an_answer_that_is_late_is_still_the_answer(run: Run) -> None:
    """It is not sent again while its connection lives, and what follows waits for it."""

    async def work() -> None:
        async with (
            scripted_cluster() as cluster,
            Producer(bootstrap_servers=cluster.bootstrap, **QUICK) as producer,
        ):
            await producer.send_and_wait(TOPIC, b"first")
            node = cluster.nodes[1]
            node.hold(ProduceRequest)
            deliveries = [await producer.send(TOPIC, b"%d" % number) for number in range(3)]
            await until(lambda: len(cluster.log) == 4)
            assert not any(delivery.done for delivery in deliveries)
            node.release()
            assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3]
            assert cluster.count(ProduceRequest) == 4

    run(work())


def test_sequence_numbers_wrap_while_the_leader_moves(run: Run) -> None:
    """The batch with the largest number is written, and its answer is lost."""

    async def work() -> None:
        async with (
            scripted_cluster() as cluster,
            Producer(bootstrap_servers=cluster.bootstrap, **QUICK) as producer,
        ):
            await producer.send_and_wait(TOPIC, b"first")
            queue = producer._accumulator.by_topic[TOPIC].queues[0]
            queue.next_sequence, queue.last_acked = MAX_SEQUENCE, MAX_SEQUENCE - 1
            cluster.expected[PRODUCER_ID, 0] = MAX_SEQUENCE
            cluster.recent.clear()
            old = cluster.nodes[1]
            old.hold(ProduceRequest)
            deliveries = [await producer.send(TOPIC, value) for value in (b"largest", b"smallest", b"next")]
            await until(lambda: old.is_holding)
            cluster.lead(2)
            old.hang_up()
            assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3]
            assert cluster.values == [b"first", b"largest", b"smallest", b"next"]
            assert [batch.base_sequence for batch in cluster.log] == [0, MAX_SEQUENCE, 0, 1]
            assert {batch.producer_epoch for batch in cluster.log} == {0}

    run(work())


async def three_transactions(
    cluster: ScriptedCluster, producer: Producer, before: Callable[[], None]
) -> None:
    """The second is aborted; `before` is called before each step of each."""
    before()
    await producer.init_transactions()
    for number in range(3):
        producer.begin_transaction()
        before()
        await producer.send_and_wait(TOPIC, b"%d" % number)
        before()
        await producer.send_offsets_to_transaction({WHERE: OffsetAndMetadata(number)}, GROUP)
        before()
        await (producer.abort_transaction() if number == 1 else producer.commit_transaction())


def check(cluster: ScriptedCluster) -> None:
    assert cluster.committed == [b"0", b"2"]
    assert cluster.committed_offsets == [0, 2]
    assert cluster.transactions["t"].ends == [True, False, True]
    epochs = [batch.producer_epoch for batch in cluster.log]
    if cluster.transaction_version == 2:
        assert len(set(epochs)) == 3, "each transaction has its own"
        assert cluster.count(AddPartitionsToTxnRequest) == cluster.count(AddOffsetsToTxnRequest) == 0
    else:
        assert len(set(epochs)) == 1
        assert cluster.count(AddPartitionsToTxnRequest) >= 3


@pytest.mark.parametrize("version", VERSIONS)
def test_coordinators_move_before_every_request(run: Run, version: int) -> None:
    """That of the transaction, that of the group, and the leader."""

    async def work() -> None:
        async with scripted_cluster(transaction_version=version) as cluster:

            def move() -> None:
                for key in ("t", "g"):
                    cluster.coordinators[key] = OTHER[cluster.coordinators.get(key, 1)]
                cluster.lead(OTHER[cluster.leader])

            async with Producer(
                bootstrap_servers=cluster.bootstrap, transactional_id="t", **QUICK
            ) as producer:
                await three_transactions(cluster, producer, move)
            check(cluster)
            assert cluster.count(FindCoordinatorRequest) > 4

    run(work())


ALWAYS = (InitProducerIdRequest, TxnOffsetCommitRequest, EndTxnRequest)
ANNOUNCING = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest)
SENT = [(version, kind) for version in VERSIONS for kind in (*ALWAYS, *(ANNOUNCING if version < 2 else ()))]


@pytest.mark.parametrize(("version", "kind"), SENT, ids=lambda value: getattr(value, "__name__", value))
def test_a_coordinator_moves_after_it_has_done_its_work_and_before_it_answers(
    run: Run, version: int, kind: Any
) -> None:
    """The request comes a second time, to another node, and changes nothing."""

    async def work() -> None:
        async with scripted_cluster(transaction_version=version) as cluster:
            old = cluster.nodes[1]
            # What leads and coordinates otherwise is elsewhere: only the connection to the coordinator breaks.
            cluster.lead(2)
            deliver = old.deliver

            def deliver_and_move(writer: Any, answered: Any, data: bytes) -> None:
                if answered is kind and cluster.coordinators == {}:
                    cluster.coordinators.update(t=2, g=2)
                    writer.transport.abort()
                else:
                    deliver(writer, answered, data)

            old.deliver = deliver_and_move  # type: ignore[method-assign,assignment]
            async with Producer(
                bootstrap_servers=cluster.bootstrap, transactional_id="t", **QUICK
            ) as producer:
                await three_transactions(cluster, producer, lambda: None)
            assert cluster.coordinators == {"t": 2, "g": 2}
            assert cluster.nodes[2].count(kind) >= 1
            if kind is TxnOffsetCommitRequest:
                assert cluster.committed == [b"0", b"2"]
                assert cluster.committed_offsets == [0, 0, 2], "the same offset twice is the same"
            else:
                check(cluster)

    run(work())


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_to_the_end_of_a_transaction_that_is_late(run: Run, version: int) -> None:
    async def work() -> None:
        async with (
            scripted_cluster(transaction_version=version) as cluster,
            Producer(bootstrap_servers=cluster.bootstrap, transactional_id="t", **QUICK) as producer,
        ):
            node = cluster.nodes[1]
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send_and_wait(TOPIC, b"0")
            node.hold(EndTxnRequest)
            commit = asyncio.ensure_future(producer.commit_transaction())
            await until(lambda: node.is_holding)
            assert cluster.committed == [b"0"]
            assert not commit.done()
            node.release()
            await commit
            producer.begin_transaction()
            await producer.send_and_wait(TOPIC, b"1")
            await producer.commit_transaction()
            assert (cluster.committed, cluster.count(EndTxnRequest)) == ([b"0", b"1"], 2)

    run(work())
