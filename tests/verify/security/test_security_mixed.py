"""Apache Kafka's nodes and ours in one cluster that is SASL_SSL throughout: leaders of both kinds, nothing lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.verify.quorum.mixed_cluster import PATIENCE_S, wait_for
from tests.verify.security.secured_cluster import APACHE, OURS, SecuredCluster, secured_cluster

KINDS = {
    "two-of-ours": {101: APACHE, 102: OURS, 103: OURS, 1: APACHE, 2: OURS, 3: OURS},
    "one-of-ours": {101: APACHE, 102: OURS, 103: APACHE, 1: APACHE, 2: OURS, 3: APACHE},
}
BROKERS = (1, 2, 3)
PARTITIONS = 6
RECORDS_A_STEP = 300
MAX_CONTROLLERS_KILLED = 12
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "auto.create.topics.enable": "false",
}


class Load:
    """Records that were acknowledged, one step at a time."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self._producer = Producer({**cluster.librdkafka_options("admin"), "enable.idempotence": True})
        self.acknowledged: list[bytes] = []
        self._next = 0

    def step(self, between: Callable[[], object] = lambda: None) -> None:
        for number in range(RECORDS_A_STEP):
            if number == RECORDS_A_STEP // 2:
                between()
            value = b"%d" % self._next
            self._producer.produce(
                "orders", value, partition=self._next % PARTITIONS, on_delivery=self._delivered
            )
            self._next += 1
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append(message.value())


def leaders(admin: AdminClient) -> dict[int, tuple[int, list[int]]]:
    """Leader and ISR of each partition."""
    topic = admin.list_topics("orders", timeout=PATIENCE_S).topics["orders"]
    return {number: (each.leader, sorted(each.isrs)) for number, each in topic.partitions.items()}


def read_all(cluster: SecuredCluster, count: int) -> list[bytes]:
    consumer = Consumer({**cluster.librdkafka_options("admin"), "group.id": "g"})
    consumer.assign([TopicPartition("orders", number, 0) for number in range(PARTITIONS)])
    read: list[bytes] = []
    limit = time.monotonic() + PATIENCE_S
    while len(read) < count:
        assert time.monotonic() < limit, f"{len(read)} of {count} records"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            read.append(message.value() or b"")
    assert consumer.poll(1) is None
    consumer.close()
    return read


@pytest.mark.parametrize("kinds", KINDS.values(), ids=list(KINDS))
def test_nothing_is_lost_while_every_node_is_killed(
    oracle: Callable[..., Any], tmp_path: Path, kinds: dict[int, str]
) -> None:
    with secured_cluster(oracle, "4.1.0", tmp_path / "cluster", kinds, SETTINGS) as cluster:
        admin = AdminClient(cluster.librdkafka_options("admin"))
        wait_for("all brokers", lambda: set(admin.list_topics(timeout=PATIENCE_S).brokers) == set(BROKERS))
        admin.create_topics([NewTopic("orders", PARTITIONS, len(BROKERS))])["orders"].result(PATIENCE_S)
        load = Load(cluster)
        load.step()
        led: set[int] = set()
        active: set[str] = set()
        for victim in BROKERS:
            led |= {leader for leader, _ in leaders(admin).values()}
            load.step(lambda victim=victim: cluster.kill(victim))  # type: ignore[misc]
            led |= {leader for leader, _ in leaders(admin).values()}
            cluster.start(victim)
            wait_for(
                f"the ISRs are whole after {victim}",
                lambda: all(isr == list(BROKERS) for _, isr in leaders(admin).values()),
            )
        # Which of the standbys is elected is chance: until controllers of both kinds were active, and two fell.
        for killed in range(MAX_CONTROLLERS_KILLED):
            if killed >= 2 and active == {APACHE, OURS}:
                break
            controller = cluster.active_controller()
            active.add(cluster.kind_of(controller))
            load.step(lambda controller=controller: cluster.kill(controller))  # type: ignore[misc]
            assert cluster.active_controller() != controller
            active.add(cluster.kind_of(cluster.active_controller()))
            cluster.start(controller)
        load.step()
        assert led == set(BROKERS)
        assert active == {APACHE, OURS}
        assert sorted(read_all(cluster, len(load.acknowledged))) == sorted(load.acknowledged)
        assert cluster.faults() == []


def test_users_keep_their_names_through_every_broker(oracle: Callable[..., Any], tmp_path: Path) -> None:
    """Requests for the controller arrive there in envelopes, and it decides for the user who sent them."""
    with secured_cluster(oracle, "4.1.0", tmp_path / "cluster", KINDS["two-of-ours"], SETTINGS) as cluster:
        for kind in (APACHE, OURS):
            for number in BROKERS:
                create = ["--create", "--topic", f"{kind}-{number}", "--partitions", "1"]
                code, text = cluster.secured_tool(kind, "topics", number, *create, user="alice")
                assert code != 0
                assert "authoriz" in text.lower(), text
        allow = ["--add", "--allow-principal", "User:alice", "--operation", "Create", "--cluster"]
        code, text = cluster.secured_tool(APACHE, "acls", 2, *allow)
        assert code == 0, text
        for kind in (APACHE, OURS):
            for number in BROKERS:
                create = ["--create", "--topic", f"{kind}-{number}", "--partitions", "1"]
                # The ACL reaches every broker a moment after the tool has ended.
                wait_for(
                    f"alice creates a topic on {number}",
                    lambda create=create, kind=kind, number=number: (  # type: ignore[misc]
                        cluster.secured_tool(
                            kind, "topics", number, *create, "--if-not-exists", user="alice"
                        )[0]
                        == 0
                    ),
                )
        assert cluster.faults() == []


def test_certificates_are_replaced_and_brokers_killed_under_load(
    oracle: Callable[..., Any], tmp_path: Path
) -> None:
    """Every broker shows a new certificate while records go on, and is killed with it."""
    with secured_cluster(oracle, "4.1.0", tmp_path / "cluster", KINDS["two-of-ours"], SETTINGS) as cluster:
        admin = AdminClient(cluster.librdkafka_options("admin"))
        wait_for("all brokers", lambda: set(admin.list_topics(timeout=PATIENCE_S).brokers) == set(BROKERS))
        admin.create_topics([NewTopic("orders", PARTITIONS, len(BROKERS))])["orders"].result(PATIENCE_S)
        load = Load(cluster)
        load.step()
        for number in BROKERS:
            before = cluster.certificate_of(number)
            load.step(lambda number=number: cluster.renew(number))  # type: ignore[misc]
            wait_for(
                f"the new certificate of {number}",
                lambda number=number, before=before: cluster.certificate_of(number) != before,  # type: ignore[misc]
            )
            renewed = cluster.certificate_of(number)
            load.step(lambda number=number: cluster.kill(number))  # type: ignore[misc]
            cluster.start(number)
            wait_for(
                f"the ISRs are whole after {number}",
                lambda: all(isr == list(BROKERS) for _, isr in leaders(admin).values()),
            )
            if cluster.kind_of(number) == OURS:
                # It is an option of the cluster: the broker has it after its start, too.  Apache Kafka's goes
                # back to the one of its file.
                assert cluster.certificate_of(number) == renewed
        load.step()
        assert sorted(read_all(cluster, len(load.acknowledged))) == sorted(load.acknowledged)
        assert cluster.faults() == []
