"""Finding a cluster and keeping up with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import Admin, Producer
from barnabas.client import errors as client_errors
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import Metadata
from barnabas.client.model import TopicPartition
from barnabas.client.pool import backoff_s
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.runtime.random import SeededRandom
from tests.client.scripted import NODE_ID, TOPIC, ScriptedBroker, scripted
from tools.ports import free_ports

Run = Callable[[Any], Any]
QUICK: dict[str, Any] = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "retry_backoff_max_ms": 20}


def test_no_broker_is_listening(run: Run) -> None:
    async def work() -> None:
        (port,) = free_ports(1)
        async with Admin(bootstrap_servers=f"127.0.0.1:{port}", **QUICK) as admin:
            with pytest.raises(client_errors.KafkaTimeoutError, match=f"{port}.*no connection could be made"):
                await admin.list_topics(timeout_ms=200)

    run(work())


def test_a_name_that_means_nothing(run: Run) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers="no-such-host.invalid:9092", **QUICK) as admin:
            with pytest.raises(client_errors.KafkaTimeoutError, match="no-such-host"):
                await admin.list_topics(timeout_ms=300)

    run(work())


def test_one_bootstrap_server_that_lives_is_enough(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            (dead,) = free_ports(1)
            servers = [f"127.0.0.1:{dead}", broker.bootstrap]
            async with Admin(bootstrap_servers=servers, **QUICK) as admin:
                assert TOPIC in await admin.list_topics()

    run(work())


def test_a_broker_that_does_not_respond_is_abandoned(run: Run) -> None:
    async def work() -> None:
        async with scripted() as silent, scripted() as broker:
            silent.handlers[MetadataRequest] = lambda *_: None
            servers = [silent.bootstrap, broker.bootstrap]
            options: dict[str, Any] = {**QUICK, "request_timeout_ms": 100}
            async with Admin(bootstrap_servers=servers, **options) as admin:
                for _ in range(5):
                    assert TOPIC in await admin.list_topics()

    run(work())


def test_something_else_that_listens_is_no_broker(run: Run) -> None:
    async def work() -> None:
        async def protocol(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with Admin(bootstrap_servers=f"127.0.0.1:{port}", **QUICK) as admin:
            with pytest.raises(client_errors.KafkaTimeoutError, match="could not be handled"):
                await admin.list_topics(timeout_ms=200)
        server.close()
        await server.wait_closed()

    run(work())


def test_a_cluster_that_moved_is_found_by_the_bootstrap_servers_again(run: Run) -> None:
    async def work() -> None:
        async with scripted() as first, scripted() as second:
            servers = [first.bootstrap, second.bootstrap]
            async with Admin(bootstrap_servers=servers, **QUICK) as admin:
                await admin.list_topics()
                for removed, left in ((first, second), (second, first)):
                    await removed.stop()
                    assert TOPIC in await admin.list_topics(timeout_ms=5000)
                    await removed.start()
                    assert left.port

    run(work())


def test_metadata_that_is_too_old_starts_over(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            refusal = MetadataResponse(brokers=[], topics=[], error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
            async with Admin(bootstrap_servers=broker.bootstrap, **QUICK) as admin:
                await admin.cluster.update()
                broker.once(MetadataRequest, lambda *_: refusal)
                with pytest.raises(client_errors.RebootstrapRequiredError):
                    await admin.cluster.update()
                assert admin.cluster.metadata.brokers == {}
                await admin.cluster.update()
                assert list(admin.cluster.metadata.brokers) == [1]

    run(work())


def test_a_coordinator_that_moved_is_looked_up_again(run: Run) -> None:
    from barnabas.client import OffsetAndMetadata, TopicPartition

    async def work() -> None:
        async with scripted() as broker:
            partition = TopicPartition(TOPIC, 0)

            def commit(code: int) -> OffsetCommitResponse:
                part = OffsetCommitResponse.Partition(partition_index=0, error_code=code)
                return OffsetCommitResponse(
                    topics=[OffsetCommitResponse.Topic(name=TOPIC, partitions=[part])]
                )

            broker.handlers[OffsetCommitRequest] = lambda *_: commit(0)
            broker.once(OffsetCommitRequest, lambda *_: commit(ErrorCode.NOT_COORDINATOR))
            loading = FindCoordinatorResponse.Coordinator(
                key="g",
                node_id=-1,
                host="",
                port=-1,
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                error_message=None,
            )
            broker.once(FindCoordinatorRequest, lambda *_: FindCoordinatorResponse(coordinators=[loading]))
            async with Admin(bootstrap_servers=broker.bootstrap, **QUICK) as admin:
                done = await admin.alter_consumer_group_offsets("g", {partition: OffsetAndMetadata(1)})
                done.raise_first()
            assert broker.count(FindCoordinatorRequest) == 3
            assert broker.count(OffsetCommitRequest) == 2

    run(work())


NO_ANSWER = None
REFUSED = InitProducerIdResponse(
    throttle_time_ms=0, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1
)


@pytest.mark.parametrize("answer", [NO_ANSWER, REFUSED], ids=["silent", "not available"])
def test_a_coordinator_that_is_cut_off_is_not_asked_who_it_is(
    run: Run, answer: InitProducerIdResponse | None
) -> None:
    """It takes itself for the coordinator, until it hears from the others again."""

    async def work() -> None:
        async with scripted() as cut_off, scripted() as other:
            nodes = {NODE_ID: cut_off, NODE_ID + 1: other}
            for number, broker in nodes.items():
                broker.handlers[MetadataRequest] = lambda *_: metadata_of(nodes)
                broker.handlers[FindCoordinatorRequest] = partial(coordinated_by, number, broker.port)
            cut_off.handlers[InitProducerIdRequest] = lambda *_: answer
            options: dict[str, Any] = {**QUICK, "request_timeout_ms": 1_000, "transactional_id": "t"}
            # The client is connected to no other.
            async with Producer(bootstrap_servers=cut_off.bootstrap, **options) as producer:
                await producer.init_transactions()
            assert [broker.count(FindCoordinatorRequest) for broker in nodes.values()] == [1, 1]
            assert [broker.count(InitProducerIdRequest) for broker in nodes.values()] == [1, 1]

    run(work())


def metadata_of(nodes: Mapping[int, ScriptedBroker]) -> MetadataResponse:
    brokers = [
        MetadataResponse.Broker(node_id=number, host="127.0.0.1", port=broker.port)
        for number, broker in nodes.items()
    ]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=NODE_ID, topics=[])


def coordinated_by(number: int, port: int, *_: object) -> FindCoordinatorResponse:
    found = FindCoordinatorResponse.Coordinator(
        key="t", node_id=number, host="127.0.0.1", port=port, error_code=0, error_message=None
    )
    return FindCoordinatorResponse(coordinators=[found])


def test_idle_connections_are_closed(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            options = {**QUICK, "connections_max_idle_ms": 50}
            async with Admin(bootstrap_servers=broker.bootstrap, **options) as admin:
                await admin.list_topics()
                for _ in range(100):
                    await asyncio.sleep(0.02)
                    if not admin.cluster.pool._connections:
                        break
                else:
                    raise AssertionError("the connection was kept")
                before = broker.connections
                await admin.list_topics()
                assert broker.connections > before

    run(work())


def test_pauses_double_up_to_a_limit() -> None:
    random = SeededRandom(1)
    pauses = [backoff_s(100, 1000, failures, random) for failures in range(8)]
    for failures, pause in enumerate(pauses):
        plain = min(0.1 * 2**failures, 1.0)
        assert 0.8 * plain <= pause <= 1.2 * plain


@pytest.mark.parametrize(
    ("code", "partition", "expected", "said"),
    [
        (0, 0, client_errors.LeaderNotAvailableError, "partition t-0 has no leader"),
        (0, 9, client_errors.UnknownTopicOrPartitionError, "partition t-9 is unknown"),
        (None, 0, client_errors.UnknownTopicOrPartitionError, "partition t-0 is unknown"),
        (ErrorCode.KAFKA_STORAGE_ERROR, 0, client_errors.KafkaStorageError, ""),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0, client_errors.LeaderNotAvailableError, "has no leader"),
    ],
)
def test_why_a_partition_has_no_leader(
    code: int | None, partition: int, expected: type[Exception], said: str
) -> None:
    metadata = Metadata()
    if code is not None:
        numbered = MetadataResponse.Partition(
            error_code=0, partition_index=0, leader_id=-1, leader_epoch=1, replica_nodes=[], isr_nodes=[]
        )
        topic = MetadataResponse.Topic(error_code=code, name="t", partitions=[numbered])
        metadata.update(MetadataResponse(brokers=[], cluster_id="c", controller_id=1, topics=[topic]), 0.0)
    cluster: Any = SimpleNamespace(metadata=metadata)
    error = Cluster.leaderless(cluster, TopicPartition("t", partition))
    assert isinstance(error, expected)
    assert said in str(error)
