"""Groups and transactions whose coordinators are of both kinds, and brokers replaced in place by the other kind.

A broker of Apache Kafka 3.9.1 is stopped, and barnabas goes on with its id and its folder, and back (M-B1 M-B5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client import TopicPartition
from barnabas.client.sync import Consumer, Producer
from tests.verify.zookeeper import both_kinds as kinds
from tests.verify.zookeeper.both_kinds import APACHE, KINDS, OURS, BothKinds, both_kinds, wait_for

ALL = set(KINDS)
IDS = 6
TIMEOUT_MS = 100_000


@pytest.fixture(scope="module")
def cluster(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothKinds]:
    options = {
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    }
    kinds.OPTIONS.update(options)
    with both_kinds(oracle, tmp_path_factory.mktemp("coordinators") / "cluster") as cluster:
        cluster.tool(
            "topics", "--create", "--topic", "orders", "--partitions", "4", "--replication-factor", "3"
        )
        yield cluster
    for name in options:
        del kinds.OPTIONS[name]


class Transactions:
    """Producers with ids of their own: each round commits one transaction and aborts another."""

    def __init__(self, cluster: BothKinds, name: str) -> None:
        self._name = name
        self._servers = cluster.bootstrap
        self.committed: list[bytes] = []
        self._round = 0

    def run(self) -> None:
        self._round += 1
        for number in range(IDS):
            options: dict[str, Any] = {
                "bootstrap_servers": self._servers,
                "transactional_id": f"t{number}",
                "acks": "all",
                "delivery_timeout_ms": TIMEOUT_MS,
                "max_block_ms": TIMEOUT_MS,
            }
            with Producer(**options) as producer:
                producer.init_transactions()
                values = [f"{self._round}-{number}-{each}".encode() for each in range(8)]
                producer.begin_transaction()
                for value in values:
                    producer.send("orders", value, key=value)
                producer.commit_transaction()
                self.committed += values
                producer.begin_transaction()
                producer.send("orders", b"aborted").result(TIMEOUT_MS / 1_000)
                producer.abort_transaction()

    def check(self) -> None:
        """Each is read once, by members whose groups have coordinators of both kinds."""
        for number in range(IDS):
            found: list[bytes] = []
            options: dict[str, Any] = {
                "bootstrap_servers": self._servers,
                "group_id": f"{self._name}-{self._round}-{number}",
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
            }
            with Consumer(**options) as consumer:
                consumer.subscribe(["orders"])

                def read(consumer: Any = consumer, found: list[bytes] = found) -> bool:
                    found.extend(bytes(record.value or b"") for record in consumer.poll(timeout_ms=1_000))
                    return len(found) >= len(self.committed)

                wait_for("all committed records", read)
                consumer.commit()
            assert sorted(found) == sorted(self.committed)


def leaders(cluster: BothKinds, topic: str) -> set[str]:
    return {kinds.KINDS[state["leader"]] for state in cluster.states(topic)}


def elect_preferred(cluster: BothKinds) -> None:
    cluster.tool("leader-election", "--election-type", "preferred", "--all-topic-partitions")


def test_coordinators_move_between_the_kinds(cluster: BothKinds) -> None:
    transactions = Transactions(cluster, "moved")
    transactions.run()
    transactions.check()
    for topic in ("__consumer_offsets", "__transaction_state"):
        assert leaders(cluster, topic) == {APACHE, OURS}
    for number in (1, 3):
        cluster.kill(number)
        for topic in ("orders", "__consumer_offsets", "__transaction_state"):
            cluster.wait_for_isr(topic, ALL - {number})
        transactions.run()
        transactions.check()
        cluster.start(number)
        for topic in ("orders", "__consumer_offsets", "__transaction_state"):
            cluster.wait_for_isr(topic, ALL)
        elect_preferred(cluster)
    # What a group has committed is known to the coordinator that took over.
    groups = cluster.tool("consumer-groups", "--list").split()
    assert {f"moved-{n}-{number}" for n in (1, 2, 3) for number in range(IDS)} <= set(groups)
    described = cluster.tool("consumer-groups", "--describe", "--group", "moved-1-0")
    assert "orders" in described


def test_a_broker_is_replaced_in_place_and_back(cluster: BothKinds, monkeypatch: pytest.MonkeyPatch) -> None:
    transactions = Transactions(cluster, "replaced")
    transactions.committed = committed_now(cluster)
    transactions.run()
    transactions.check()
    folder = cluster.home / "ours-1"
    folder.mkdir()
    (folder / "data").symlink_to(cluster.home / "broker-1" / "data")
    for kind in (OURS, APACHE):
        cluster.stop(1)
        for topic in ("orders", "__consumer_offsets", "__transaction_state"):
            cluster.wait_for_isr(topic, ALL - {1})
        transactions.run()
        monkeypatch.setitem(kinds.KINDS, 1, kind)
        cluster.start(1)
        for topic in ("orders", "__consumer_offsets", "__transaction_state"):
            cluster.wait_for_isr(topic, ALL)
        elect_preferred(cluster)
        transactions.run()
        transactions.check()


def committed_now(cluster: BothKinds) -> list[bytes]:
    """What earlier tests have committed."""
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
    }
    places = [TopicPartition("orders", number) for number in range(4)]
    found: list[bytes] = []
    with Consumer(**options) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        while records := consumer.poll(timeout_ms=3_000):
            found += [bytes(record.value or b"") for record in records]
    return found
