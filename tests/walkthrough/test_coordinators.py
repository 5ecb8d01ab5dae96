"""Groups and transactions on three nodes: coordinators, partitions and clients are on different ones.

M-G1 M-F3: groups and transactions work on every node, and clients find their coordinators again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.client import NewTopic
from barnabas.client.cluster import Cluster as ClientCluster
from barnabas.client.cluster import CoordinatorType
from barnabas.client.errors import KafkaError
from barnabas.client.model import OffsetAndMetadata, TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer
from barnabas.config import ADMIN
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.walkthrough.nodes import Cluster, cluster_of, combined, eventually
from tests.walkthrough.transfers import PATIENT, ConfluentTransactions, Transfers, our_transactions

# One cluster for all of them.
pytestmark = pytest.mark.xdist_group("coordinators")

OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    # So that a transaction can hang.
    "transaction.partition.verification.enable": "false",
}
INTERNAL_PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(tmp_path_factory.mktemp("coordinators"), combined(3), OPTIONS) as running:
        with running.admin() as admin:
            for topic, transactional in ((CONSUMER_OFFSETS, False), (TRANSACTION_STATE, True)):
                _touch(admin, transactional=transactional)
                eventually(lambda admin=admin, topic=topic: _leaders(admin, topic))  # type: ignore[misc]
        yield running


def _touch(admin: Admin, *, transactional: bool) -> None:
    """The first question for a coordinator creates its topic."""
    if transactional:
        admin.describe_transactions(["nobody"])
    else:
        admin.describe_consumer_groups(["nobody"])


def _leaders(admin: Admin, topic: str) -> dict[int, int]:
    described = admin.describe_topics([topic]).get(topic)
    leaders = {info.partition: info.leader for info in described.partitions} if described else {}
    return {partition: -1 if leader is None else leader for partition, leader in leaders.items()}


def coordinated_by(admin: Admin, node_id: int, topic: str, prefix: str) -> str:
    """A group or transactional id whose coordinator is on this node."""
    leaders = _leaders(admin, topic)
    names = (f"{prefix}-{number}" for number in range(1_000))
    return next(name for name in names if leaders[partition_for_group(name, INTERNAL_PARTITIONS)] == node_id)


def place(admin: Admin, topic: str, *node_ids: int) -> None:
    """A topic with one partition on each of these nodes."""
    assignments = {index: [node_id] for index, node_id in enumerate(node_ids)}
    admin.create_topics([NewTopic(topic, assignments=assignments)]).raise_first()


def read_all(cluster: Cluster, group: str, topics: list[str], count: int, **config: Any) -> list[Any]:
    """The values that a member of a group gets, until there are enough; then it commits."""
    given = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", **PATIENT, **config}
    with Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": group, **given}) as consumer:
        consumer.subscribe(topics)
        values: list[Any] = []

        def enough() -> bool:
            values.extend(record.value for record in consumer.poll(timeout_ms=200))
            return len(values) >= count

        eventually(enough, f"{len(values)} records of {count}")
        consumer.commit()
    return values


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_transaction_over_three_nodes_with_offsets_of_a_group(cluster: Cluster, protocol: str) -> None:
    # M-G1 M-F3: its coordinator is on node 1, the group's on node 2, and the partitions are on all.
    source, target = f"in-{protocol}", f"out-{protocol}"
    with cluster.admin() as admin:
        place(admin, source, 3, 1)
        place(admin, target, 2, 3, 1)
        shop = coordinated_by(admin, 1, TRANSACTION_STATE, f"shop-{protocol}")
        group = coordinated_by(admin, 2, CONSUMER_OFFSETS, f"group-{protocol}")
        with our_transactions(cluster, shop) as producer:
            for number in range(6):
                producer.begin_transaction()
                for index in range(3):
                    producer.send(target, b"%d" % number, partition=index)
                offset = OffsetAndMetadata(number + 1)
                member = _membership(group)
                producer.send_offsets_to_transaction({TopicPartition(source, 1): offset}, member)
                if number % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
        values = read_all(cluster, f"reader-{protocol}", [target], 9, **{"group.protocol": protocol})
        assert sorted(values) == sorted([b"0", b"2", b"4"] * 3)
        committed = eventually(lambda: _committed(admin, group, TopicPartition(source, 1)))
        assert committed == 5
        # Each broker lists its own, and the tool asks them all.
        listed = cluster.barnabas("transactions", "list")
        assert [line.split()[1] for line in listed.splitlines() if line.startswith(shop)] == ["1"]
        described = cluster.barnabas("transactions", "describe", "--transactional-id", shop)
        assert "CompleteAbort" in described
        groups = cluster.barnabas("consumer-groups", "--list")
        assert {group, f"reader-{protocol}"} <= set(groups.split())


def _membership(group: str) -> Any:
    from barnabas.client.model import ConsumerGroupMetadata

    return ConsumerGroupMetadata(group)


def _committed(admin: Admin, group: str, partition: TopicPartition) -> int | None:
    offsets = admin.list_consumer_group_offsets({group: None}).get(group)
    found = None if offsets is None else offsets.get(partition)
    return None if found is None else found.offset


@pytest.mark.slow
def test_a_hanging_transaction_is_found_and_aborted_on_whichever_node_it_is(cluster: Cluster) -> None:
    # cluster.md 24, M-F3
    with cluster.admin() as admin:
        place(admin, "hangs", 1, 2, 3)
    for index in range(3):
        asyncio.run(_write_unknown_transaction(cluster, "hangs", index))
    search = ("transactions", "find-hanging", "--topic", "hangs", "--max-transaction-timeout", "0")
    found = [line.split()[:2] for line in cluster.barnabas(*search).splitlines()[1:]]
    assert sorted(found) == [["hangs", "0"], ["hangs", "1"], ["hangs", "2"]]
    for index in range(3):
        given = ("--topic", "hangs", "--partition", str(index), "--start-offset", "0")
        cluster.barnabas("transactions", "abort", *given)
    assert cluster.barnabas(*search).splitlines()[1:] == []


async def _write_unknown_transaction(cluster: Cluster, topic: str, index: int) -> None:
    """Records of a transaction that no coordinator knows, as an unclean election may leave them."""
    rows = [Record(0, 1_700_000_000_000, None, b"v")]
    batch = build(rows, producer_id=9_000_000 + index, producer_epoch=0, base_sequence=0, transactional=True)
    data = ProduceRequest.PartitionProduceData(index=index, records=bytes(batch))
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=1_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
    async with _client(cluster) as client:
        leaders = await client.leaders([TopicPartition(topic, index)])
        connection = await client.connection_to(leaders[TopicPartition(topic, index)].leader)
        response = await connection.send(request, ProduceResponse, highest=11)
    assert response.responses[0].partition_responses[0].error_code == 0


class _client:  # noqa: N801  # a context manager
    """The client library's own view of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = ClientCluster(ADMIN.parse({"bootstrap.servers": cluster.bootstrap()}))

    async def __aenter__(self) -> ClientCluster:
        await self._cluster.update()
        return self._cluster

    async def __aexit__(self, *_: object) -> None:
        await self._cluster.close()


def _producer_ids(cluster: Cluster) -> list[int]:
    """One of each broker that is up."""

    async def allocated() -> list[int]:
        ids = []
        async with _client(cluster) as client:
            for node in list(client.metadata.brokers.values()):
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
                connection = await client.connection_to(node.id)
                response = await connection.send(request, InitProducerIdResponse)
                if response.error_code == 0:
                    ids.append(response.producer_id)
        return ids

    return asyncio.run(allocated())


def _eventually_from_all(cluster: Cluster) -> list[int]:
    def all_three() -> list[int] | None:
        ids = _producer_ids(cluster)
        return ids if len(ids) == len(cluster.nodes) else None

    return eventually(lambda: _unless_failed(all_three))


def _unless_failed(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (KafkaError, OSError):
        return None


@pytest.mark.parametrize("make", [our_transactions, ConfluentTransactions], ids=["barnabas", "librdkafka"])
@pytest.mark.parametrize(
    "is_clean", [pytest.param(True, id="stopped", marks=pytest.mark.slow), pytest.param(False, id="killed")]
)
def test_a_producer_goes_on_when_its_coordinators_broker_comes_back(
    cluster: Cluster, make: Callable[[Cluster, str], Any], is_clean: bool
) -> None:
    # M-F3: the partitions are elsewhere; nothing committed is lost, nothing is there twice.
    topic = f"transfers-{make.__name__}-{is_clean}".lower()
    away = 3
    with cluster.admin(1, 2) as admin:
        place(admin, topic, 1, 2)
        name = coordinated_by(admin, away, TRANSACTION_STATE, topic)
        producer = make(cluster, name)
        transfers = Transfers(producer, topic)
        transfers.start()
        transfers.wait_for_more()
        before = _eventually_from_all(cluster)
        if is_clean:
            cluster[away].stop()
        else:
            cluster[away].kill()
        cluster.start(away)
        transfers.wait_for_more(5)
        transfers.stop()
        producer.close()
        values = read_all(cluster, f"reader-of-{topic}", [topic], 2 * len(transfers.committed))
        assert sorted(values) == sorted(transfers.committed * 2)
        after = _eventually_from_all(cluster)
        assert len({*before, *after}) == len(before) + len(after), "every producer id is given once"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_when_its_coordinators_broker_comes_back(cluster: Cluster, protocol: str) -> None:
    topic, away = f"news-{protocol}", 2
    with cluster.admin(1, 3) as admin:
        place(admin, topic, 1, 3)
        group = coordinated_by(admin, away, CONSUMER_OFFSETS, topic)
    given = {"auto.offset.reset": "earliest", "group.protocol": protocol, **PATIENT}
    with (
        Producer({"bootstrap.servers": cluster.bootstrap(1, 3)}) as producer,
        Consumer({"bootstrap.servers": cluster.bootstrap(1, 3), "group.id": group, **given}) as consumer,
    ):
        consumer.subscribe([topic])
        values: list[Any] = []

        def receive(*wanted: bytes) -> None:
            for index, value in enumerate(wanted):
                producer.send(topic, value, partition=index % 2).result(60)

            def has_all() -> bool:
                values.extend(record.value for record in consumer.poll(timeout_ms=100))
                return set(wanted) <= set(values)

            eventually(has_all, f"{wanted} of {values}")

        receive(b"1", b"2")
        consumer.commit()
        cluster[away].kill()
        receive(b"3", b"4")
        cluster.start(away)
        cluster.wait_for_brokers()
        eventually(lambda: _unless_failed(lambda: consumer.commit() or True))
        receive(b"5", b"6")
        eventually(lambda: _unless_failed(lambda: consumer.commit() or True))
    assert sorted(values) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    with cluster.admin() as admin:
        assert [_committed(admin, group, TopicPartition(topic, index)) for index in range(2)] == [3, 3]


@pytest.mark.slow
def test_coordinators_move_with_a_reassignment_and_take_their_state_along(cluster: Cluster) -> None:
    """The only replica of each coordinator's partition moves from node to node while clients work."""
    topic = "moves"
    with cluster.admin() as admin:
        place(admin, topic, 1, 2)
        group = coordinated_by(admin, 1, CONSUMER_OFFSETS, "moving-group")
        name = coordinated_by(admin, 1, TRANSACTION_STATE, "moving-shop")
        index = partition_for_group(name, INTERNAL_PARTITIONS)
        producer = our_transactions(cluster, name)
        transfers = Transfers(producer, topic)
        transfers.start()
        transfers.wait_for_more()
        read_all(cluster, group, [topic], 2)
        for target in (2, 3, 1):
            _move(admin, TopicPartition(TRANSACTION_STATE, index), target)
            transfers.wait_for_more()
            _move(
                admin,
                TopicPartition(CONSUMER_OFFSETS, partition_for_group(group, INTERNAL_PARTITIONS)),
                target,
            )
            assert _committed(admin, group, TopicPartition(topic, 0)) is not None
        transfers.stop()
        producer.close()
        values = read_all(cluster, "reader-of-moves", [topic], 2 * len(transfers.committed))
        assert sorted(values) == sorted(transfers.committed * 2)


def _move(admin: Admin, partition: TopicPartition, target: int) -> None:
    admin.alter_partition_reassignments({partition: [target]}).raise_first()
    eventually(lambda: _leaders(admin, partition.topic).get(partition.partition) == target)
    eventually(lambda: not admin.list_partition_reassignments([partition]))


def test_every_broker_knows_every_coordinator(cluster: Cluster) -> None:
    """The same answer from each, on the listener that it was asked on."""

    async def found() -> list[dict[str, Any]]:
        answers = []
        for node_id in cluster.nodes:
            settings = ADMIN.parse({"bootstrap.servers": cluster.bootstrap(node_id)})
            client = ClientCluster(settings)
            try:
                names = [f"group-{number}" for number in range(20)]
                answers.append(
                    {
                        name: node.id  # type: ignore[union-attr]
                        for name, node in (await client.coordinators(names, CoordinatorType.GROUP)).items()
                    }
                )
            finally:
                await client.close()
        return answers

    first, *others = asyncio.run(found())
    assert set(first.values()) == {1, 2, 3}
    assert others == [first, first]


@pytest.mark.slow
def test_coordinators_wait_for_enough_brokers_for_their_topic(tmp_path: Path) -> None:
    """INVALID_REPLICATION_FACTOR is COORDINATOR_NOT_AVAILABLE to clients, until there are enough brokers."""
    options = {**OPTIONS, "offsets.topic.replication.factor": "3"}
    cluster = Cluster(tmp_path, combined(3), options)
    try:
        for node in cluster.nodes.values():
            node.write(cluster.voters)
            node.format()
        cluster.start(1, 2)
        cluster.wait_for_brokers()
        with cluster.admin(1) as admin:
            with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
                admin.describe_consumer_groups(["g"], timeout_ms=1_000).raise_first()
            assert CONSUMER_OFFSETS not in admin.list_topics(include_internal=True)
            assert any("INVALID_REPLICATION_FACTOR" in line for line in cluster[1].said())
            cluster.start(3)
            cluster.wait_for_brokers()

            def created() -> bool:
                _unless_failed(lambda: admin.describe_consumer_groups(["g"], timeout_ms=500))
                return CONSUMER_OFFSETS in admin.list_topics(include_internal=True)

            eventually(created)
            described = admin.describe_topics([CONSUMER_OFFSETS])[CONSUMER_OFFSETS]
            assert {frozenset(info.replicas) for info in described.partitions} == {frozenset({1, 2, 3})}
            assert len(described.partitions) == INTERNAL_PARTITIONS
    finally:
        cluster.down()
