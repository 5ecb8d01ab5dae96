"""Whole brokers of ZooKeeper mode on a real ensemble: topics, records, groups, transactions, failover."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.cli.main import main
from barnabas.client import TopicPartition
from barnabas.client.sync import Consumer, Producer
from barnabas.config.errors import ConfigError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.storage.refused import FolderRefused
from tests.broker.worlds.zookeeper_world import ZooKeeperBrokers


@pytest.fixture
def three(zookeeper_connect: str) -> Iterator[ZooKeeperBrokers]:
    with ZooKeeperBrokers(zookeeper_connect, 3, {"default.replication.factor": 3}) as cluster:
        yield cluster


def controller_of(cluster: ZooKeeperBrokers) -> int:
    """The controller that every broker knows, once they agree."""
    cluster.until(
        lambda: (
            len({broker.controller_id for broker in cluster.brokers.values()}) == 1
            and any(broker.metadata.is_active for broker in cluster.brokers.values())
        )
    )
    return next(number for number, broker in cluster.brokers.items() if broker.metadata.is_active)


def leaders(cluster: ZooKeeperBrokers, topic: str) -> list[int]:
    image = next(iter(cluster.brokers.values())).image
    found = image.topic_named(topic)
    if found is None:
        return []
    return [found.partitions[number].leader for number in sorted(found.partitions)]


def is_in_sync(cluster: ZooKeeperBrokers, topic: str, isr: set[int]) -> bool:
    return all(
        found is not None and all(set(state.isr) == isr for state in found.partitions.values())
        for found in (broker.image.topic_named(topic) for broker in cluster.brokers.values())
    )


def test_one_broker_is_its_own_controller(zookeeper_connect: str) -> None:
    # M-B1, M-B3
    with ZooKeeperBrokers(zookeeper_connect) as cluster:
        assert controller_of(cluster) == 1
        topic = cluster.topic("orders", partitions=3)
        for number in range(10):
            topic.send(f"v{number}", key=str(number % 3))
        values = sorted(record.value or b"" for record in topic.records(10))
        assert values == [b"v%d" % number for number in range(10)]
        session = cluster.client()
        registered = cluster.run(lambda: session.get(paths.broker(1)))
        assert registered is not None and registered.stat.czxid == cluster.brokers[1].broker_epoch
        assert registered.stat.version == 1
        described = json.loads(registered.data or b"")
        assert described["endpoints"] == [f"PLAINTEXT://127.0.0.1:{cluster.port(1)}"]
        assert cluster.brokers[1].cluster_id in str(cluster.run(lambda: session.get(paths.CLUSTER_ID)))
        assert cluster.disks[1].exists("/data/meta.properties")
        meta = cluster.disks[1].read_bytes("/data/meta.properties").decode()
        assert "version=0\n" in meta and "broker.id=1\n" in meta and "directory.id" not in meta
        disk = cluster.disks[1]
    assert disk.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'


def test_groups_and_transactions(three: ZooKeeperBrokers) -> None:
    # M-A6
    topic = three.topic("orders", partitions=2)
    servers = three.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id="t", acks="all") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(20):
            producer.send("orders", b"%d" % number, partition=number % 2)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("orders", b"never", partition=0).result(30)
        producer.abort_transaction()
    assert len(topic.records(20, committed=True)) == 20
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        read: list[bytes | None] = []
        # The last one is of the transaction that was aborted.
        while len(read) < 21:
            found = consumer.poll(timeout_ms=30_000)
            assert found, f"only {len(read)} records came"
            read += [record.value for record in found]
        consumer.commit()
    offsets = three.group("g").offsets()
    assert sum(offsets[TopicPartition("orders", number)] for number in (0, 1)) >= 20


def test_leadership_moves_with_a_controlled_shutdown_and_back(three: ZooKeeperBrokers) -> None:
    # M-B3, M-B5
    topic = three.topic("orders", partitions=6)
    three.until(lambda: set(leaders(three, "orders")) == {1, 2, 3})
    controller = controller_of(three)
    three.stop_broker(controller)
    left = set(three.brokers)
    assert controller_of(three) in left
    three.until(lambda: set(leaders(three, "orders")) <= left and is_in_sync(three, "orders", left))
    topic.send("while it is away")
    three.start_broker(controller)
    three.until(lambda: is_in_sync(three, "orders", {1, 2, 3}))
    assert [record.value for record in topic.records(1)] == [b"while it is away"]


def test_the_timeline_says_what_happened_and_why(three: ZooKeeperBrokers) -> None:
    # M-B3, M-B5
    three.topic("orders", partitions=6).send("x")
    three.until(lambda: is_in_sync(three, "orders", {1, 2, 3}))
    controller = controller_of(three)
    leaving = next(number for number in three.brokers if number != controller)
    three.stop_broker(leaving)
    three.until(lambda: "its controlled shutdown is complete" in told(three, "broker-fenced"))
    assert f"controlled shutdown of broker {leaving}" in told(three, "partition-leader")
    three.start_broker(leaving)
    three.until(lambda: f"broker {leaving} has caught up" in told(three, "partition-isr"))
    assert told(three, "leader-elected") == {"it created /controller in ZooKeeper"}
    assert told(three, "broker-registered") == {"it has a session with ZooKeeper"}


def told(cluster: ZooKeeperBrokers, kind: str) -> set[str]:
    """The causes of events of this kind in the timelines of all brokers."""
    return {
        event.cause
        for broker in cluster.brokers.values()
        for event in list(broker.metadata.timeline.events)
        if event.kind == kind
    }


def test_options_quotas_and_deletion_reach_every_broker(three: ZooKeeperBrokers) -> None:
    # M-B2
    three.topic("orders", configs={"retention.ms": "5000"})
    topic = three.topic("other", configs={})
    topic.send("kept")
    three.until(
        lambda: all(
            dict(broker.image.configs_of(2, "orders")) == {"retention.ms": "5000"}
            for broker in three.brokers.values()
        )
    )
    three.delete_topics(["orders"])
    session = three.client()
    while three.run(lambda: session.get(paths.delete_topic("orders"))) is not None:
        pass
    assert three.run(lambda: session.get(paths.topic("orders"))) is None
    three.until(
        lambda: all(("orders", 0) not in broker.replicas.partitions for broker in three.brokers.values())
    )
    again = three.topic("orders")
    again.send("new")
    assert [record.value for record in again.records(1)] == [b"new"]
    assert not three.brokers[1].image.configs_of(2, "orders")


def test_clients_find_the_controller_themselves(three: ZooKeeperBrokers) -> None:
    """A request that another broker gets is not forwarded."""
    controller = controller_of(three)
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
        ],
        timeout_ms=1000,
        validate_only=False,
    )
    for broker_id in three.brokers:
        assert three.ask(broker_id, MetadataRequest(topics=[]), 12).controller_id == controller
        expected = ErrorCode.NONE if broker_id == controller else ErrorCode.NOT_CONTROLLER
        if broker_id != controller:
            assert three.ask(broker_id, request, 7).topics[0].error_code == expected
    assert three.ask(controller, request, 7).topics[0].error_code == ErrorCode.NONE


def test_a_topic_is_created_by_its_first_record(three: ZooKeeperBrokers) -> None:
    # M-A3
    metadata = MetadataRequest(topics=[MetadataRequest.Topic(name="fresh")], allow_auto_topic_creation=True)
    for broker_id in three.brokers:
        (topic,) = three.ask(broker_id, metadata, 12).topics
        if broker_id == 1:
            assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    topic_of = three.existing_topic
    three.until(lambda: all(broker.image.topic_named("fresh") for broker in three.brokers.values()))
    topic_of("fresh").send("first")


def test_features_and_versions_are_those_of_3_9(zookeeper_connect: str) -> None:
    named = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    with ZooKeeperBrokers(zookeeper_connect) as cluster:
        answer = cluster.ask(1, named, 4)
    assert answer.finalized_features_epoch == 0
    assert not answer.supported_features and not answer.finalized_features
    highest = {each.api_key: each.max_version for each in answer.api_keys}
    assert (highest[0], highest[1], highest[3], highest[4], highest[6], highest[7]) == (11, 17, 12, 7, 8, 3)
    # Nothing of KRaft mode.
    assert not highest.keys() & {52, 53, 54, 55, 62, 63, 64, 70, 73, 74, 75, 80, 81}


# Ids --------------------------------------------------------------------------------------------------------


def test_a_broker_without_id_gets_one_and_keeps_it(zookeeper_connect: str) -> None:
    # M-B1
    with ZooKeeperBrokers(zookeeper_connect, 0) as cluster:
        first = cluster.start_broker(-1)
        assert first.node.node_id == 1001
        cluster.stop_broker(-1)
        assert cluster.start_broker(-1).node.node_id == 1001
        cluster.disks[-2] = cluster.disks.pop(-1)
        cluster.brokers[-2] = cluster.brokers.pop(-1)
        assert cluster.start_broker(-1).node.node_id == 1002


def test_an_id_that_is_taken_is_refused_in_one_line(zookeeper_connect: str) -> None:
    # M-B1
    with ZooKeeperBrokers(zookeeper_connect) as cluster:
        other = cluster.call(lambda: cluster.make(7, **{"broker.id": 1}))
        with pytest.raises(ConfigError, match=r"broker id 1 is taken by the broker at 127\.0\.0\.1:"):
            cluster.run(other.start)
        cluster.run(other.stop)


def test_folders_of_another_cluster_are_refused(zookeeper_connect: str) -> None:
    # M-B1
    with ZooKeeperBrokers(zookeeper_connect) as cluster:
        cluster.stop_broker(1)
        cluster.connect = f"{zookeeper_connect}-elsewhere"
        with pytest.raises(FolderRefused, match="leads to no cluster yet; correct zookeeper"):
            cluster.start_broker(1)
        # Nothing was written there.
        session = cluster.client()
        assert cluster.run(lambda: session.children("/")) in ([], None)
        cluster.connect = zookeeper_connect
        cluster.start_broker(1)


def test_without_an_ensemble_the_start_fails_with_one_line(zookeeper_connect: str) -> None:
    with ZooKeeperBrokers(zookeeper_connect, 0, {"zookeeper.connection.timeout.ms": 300}) as cluster:
        cluster.connect = "127.0.0.1:1"
        with pytest.raises(ConfigError, match=r"zookeeper\.connect=127\.0\.0\.1:1"):
            cluster.start_broker(1)


# Tools ------------------------------------------------------------------------------------------------------


def test_describe_has_no_elr_in_this_mode(
    three: ZooKeeperBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    """DescribeTopicPartitions is not served: the tool falls back to Metadata."""
    three.topic("orders", partitions=2)
    three.until(lambda: all(broker.image.topic_named("orders") for broker in three.brokers.values()))
    assert (
        main(["topics", "--bootstrap-server", three.bootstrap_servers, "--describe", "--topic", "orders"])
        == 0
    )
    described = capsys.readouterr().out
    assert described.count("Elr: N/A\tLastKnownElr: N/A") == 2
