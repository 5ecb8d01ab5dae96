"""Sessions that end, servers that stop, directories that fail: the brokers go on serving, and recover."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.broker.modes.zookeeper.entity_store import EntityStore
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.network.request_steps import Steps
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.zookeeper.client import ZooKeeperClient, ZooKeeperCode, ZooKeeperError
from tests.broker.worlds.zookeeper_world import ZooKeeperBrokers
from tests.ensemble import running_ensemble, why_no_zookeeper
from tests.runtime.zookeeper.cutting_proxy import CuttingProxy

SHORT = {"zookeeper.session.timeout.ms": 2_000, "default.replication.factor": 2}


def in_sync(cluster: ZooKeeperBrokers, topic: str, isr: set[int]) -> bool:
    found = [broker.image.topic_named(topic) for broker in cluster.brokers.values()]
    return all(
        topic is not None and all(set(state.isr) == isr for state in topic.partitions.values())
        for topic in found
    )


def test_a_broker_registers_again_after_its_session(zookeeper_connect: str) -> None:
    # M-B3
    address, _, path = zookeeper_connect.partition("/")
    proxies = {number: CuttingProxy(int(address.rpartition(":")[2])) for number in (1, 2)}
    options = {"default.replication.factor": 2, "zookeeper.session.timeout.ms": 3_000}
    try:
        with ZooKeeperBrokers(zookeeper_connect, 0, options) as cluster:
            for number, proxy in proxies.items():
                cluster.start_broker(number, zookeeper_connect=f"{proxy.address}/{path}")
            _lose_sessions(cluster, proxies)
    finally:
        for proxy in proxies.values():
            proxy.close()


def _lose_sessions(cluster: ZooKeeperBrokers, proxies: dict[int, CuttingProxy]) -> None:
    topic = cluster.topic("orders", partitions=2)
    topic.send("before")
    session = cluster.client()
    # The controller, and then the other, which is the controller by then.
    for number in (1, 2):
        _lose_session(cluster, number, proxies[number], session)
    cluster.until(
        lambda: (
            len({broker.controller_id for broker in cluster.brokers.values()}) == 1
            and any(broker.metadata.is_active for broker in cluster.brokers.values())
        )
    )
    topic.send("after")
    assert len(topic.records(2)) == 2
    cluster.topic("again").send("x")


def _lose_session(
    cluster: ZooKeeperBrokers, number: int, proxy: CuttingProxy, session: ZooKeeperClient
) -> None:
    broker = cluster.brokers[number]
    before = broker.broker_epoch
    proxy.refuse()
    while cluster.run(lambda: session.get(paths.broker(number))) is not None:
        cluster.run(lambda: session.sync("/"))
    # It goes on serving with what it knew.
    metadata = cluster.ask(number, MetadataRequest(topics=None), 12)
    assert [each.name for each in metadata.topics] == ["orders"]
    proxy.accept_again()
    cluster.until(lambda: broker.broker_epoch > before)
    cluster.until(lambda: in_sync(cluster, "orders", {1, 2}))


def test_brokers_serve_without_zookeeper(tmp_path: Path) -> None:
    # M-B1
    reason = why_no_zookeeper()
    if reason is not None:
        pytest.skip(reason)
    with (
        running_ensemble(tmp_path, 1) as ensemble,
        ZooKeeperBrokers(ensemble.new_connect(), 2, SHORT) as cluster,
    ):
        topic = cluster.topic("orders", partitions=2)
        topic.send("before")
        ensemble.servers[0].kill()
        for number in range(20):
            topic.send(f"meanwhile {number}")
        before = {number: broker.broker_epoch for number, broker in cluster.brokers.items()}
        ensemble.servers[0].start()
        ensemble.servers[0].wait()
        # Both sessions may have ended meanwhile, or not: there is a controller again in any case.
        topic.send("after")
        assert len(topic.records(22)) == 22
        cluster.until(lambda: any(broker.metadata.is_active for broker in cluster.brokers.values()))
        cluster.until(
            lambda: all(broker.broker_epoch >= before[number] for number, broker in cluster.brokers.items())
        )
        cluster.topic("again").send("x")


def test_a_broker_starts_although_its_connection_is_lost_several_times(zookeeper_connect: str) -> None:
    # M-B1: while the ensemble elects a leader
    address, _, path = zookeeper_connect.partition("/")
    proxy = CuttingProxy(int(address.rpartition(":")[2]))
    try:
        with ZooKeeperBrokers(zookeeper_connect, 1) as cluster:
            cluster.topic("orders", configs={"min.insync.replicas": "1"})
            proxy.swallow_answer(5, 20, 25, 35)
            broker = cluster.start_broker(2, zookeeper_connect=f"{proxy.address}/{path}")
            cluster.until(lambda: broker.image.topic_named("orders") is not None)
            cluster.until(lambda: dict(broker.image.configs_of(2, "orders")) == {"min.insync.replicas": "1"})
            cluster.topic("again", partitions=2).send("x")
    finally:
        proxy.close()


def test_the_options_of_a_topic_that_could_not_be_read_come_later(
    zookeeper_connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # M-B2: the connection is lost while the controller tells of a new topic
    read_topics, lost = EntityStore.read_topics, ["once for each of two"] * 2

    def losing(store: EntityStore, names: Sequence[str]) -> Steps[list[Message]]:
        if lost:
            lost.pop()
            raise ZooKeeperError(ZooKeeperCode.CONNECTION_LOSS)
        return (yield from read_topics(store, names))

    monkeypatch.setattr(EntityStore, "read_topics", losing)
    with ZooKeeperBrokers(zookeeper_connect, 2, {"default.replication.factor": 2}) as cluster:
        cluster.topic("orders", configs={"min.insync.replicas": "2"}).send("x")
        assert lost == []
        brokers = cluster.brokers.values()
        options = {"min.insync.replicas": "2"}
        cluster.until(
            lambda: all(dict(broker.image.configs_of(2, "orders")) == options for broker in brokers)
        )


def test_a_failed_directory_moves_its_leaders(zookeeper_connect: str) -> None:
    # M-B4
    options = {"default.replication.factor": 2, "log.dirs": "/a,/b"}
    with ZooKeeperBrokers(zookeeper_connect, 2, options) as cluster:
        topic = cluster.topic("orders", partitions=4)
        cluster.until(lambda: in_sync(cluster, "orders", {1, 2}))
        failed = cluster.call(lambda: cluster.brokers[1].replicas.storage.manager.logs_in("/a"))
        cluster.call(
            lambda: cluster.brokers[1].replicas.storage.manager.fail("/a", OSError(5, "Input/output error"))
        )
        moved = [number for name, number in failed if name == "orders"]
        assert moved

        def led_elsewhere() -> bool:
            found = cluster.brokers[2].image.topic_named("orders")
            return found is not None and all(found.partitions[number].leader == 2 for number in moved)

        cluster.until(led_elsewhere)
        for number in range(4):
            topic.send("still", partition=number)
        assert len(topic.records(4)) == 4
