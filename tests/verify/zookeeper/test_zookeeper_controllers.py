"""One cluster of Apache Kafka 3.9.1 and barnabas: each kind is the controller and leads the other's brokers.

Topics are created and grown, leaders fail over, replicas move between the kinds, topics are deleted while a
replica is down, and no record that was acknowledged is lost (M-B2 M-B3 M-B4 M-B5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.sync import Consumer, Producer
from tests.verify.zookeeper.both_kinds import APACHE, KINDS, OURS, BothKinds, both_kinds, wait_for

ALL = set(KINDS)
PARTITIONS = 4
ROUND = 200
TIMEOUT_MS = 100_000


@pytest.fixture(scope="module")
def cluster(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothKinds]:
    with both_kinds(oracle, tmp_path_factory.mktemp("both-kinds") / "cluster") as cluster:
        yield cluster


class Load:
    """Records that all replicas have acknowledged."""

    def __init__(self, cluster: BothKinds, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.acknowledged: list[bytes] = []

    def send(self) -> None:
        values = [f"{len(self.acknowledged) + number}".encode() for number in range(ROUND)]
        given = {"bootstrap.servers": self.cluster.bootstrap, "acks": "all"}
        with Producer({**given, "delivery.timeout.ms": TIMEOUT_MS}) as producer:
            sent = [producer.send(self.topic, value, key=value) for value in values]
            for delivery in sent:
                delivery.result(TIMEOUT_MS / 1_000)
        self.acknowledged += values

    def check(self) -> None:
        """Each is read exactly once."""
        given = {"bootstrap.servers": self.cluster.bootstrap, "auto.offset.reset": "earliest"}
        found: list[bytes] = []
        with Consumer({**given, "group.id": f"check-{self.topic}-{len(self.acknowledged)}"}) as consumer:
            consumer.subscribe([self.topic])

            def read() -> bool:
                found.extend(bytes(record.value or b"") for record in consumer.poll(timeout_ms=1_000))
                return len(found) >= len(self.acknowledged)

            wait_for(f"all records of {self.topic}", read)
        assert sorted(found) == sorted(self.acknowledged)


def other(kind: str) -> str:
    return OURS if kind == APACHE else APACHE


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_each_kind_leads_a_cluster_of_both(cluster: BothKinds, kind: str) -> None:
    topic = f"led-by-{kind}"
    controller = cluster.controlled_by(kind)
    create = ["--create", "--topic", topic, "--partitions", str(PARTITIONS), "--replication-factor", "3"]
    cluster.tool("topics", *create, "--config", "min.insync.replicas=2")
    cluster.wait_for_isr(topic, ALL)
    load = Load(cluster, topic)
    load.send()

    # A broker of the other kind dies and comes back.
    victim = next(number for number in KINDS if KINDS[number] == other(kind))
    cluster.kill(victim)
    load.send()
    cluster.wait_for_isr(topic, ALL - {victim})
    cluster.start(victim)
    cluster.wait_for_isr(topic, ALL)
    load.send()

    # The controller itself dies.
    cluster.kill(controller)
    load.send()
    wait_for("another controller", lambda: cluster.controller() not in (None, controller))
    cluster.wait_for_isr(topic, ALL - {controller})
    cluster.start(controller)
    cluster.wait_for_isr(topic, ALL)
    load.check()


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_each_kind_moves_replicas_between_both(cluster: BothKinds, kind: str) -> None:
    topic = f"moved-by-{kind}"
    cluster.controlled_by(kind)
    cluster.tool("topics", "--create", "--topic", topic, "--replica-assignment", "1:2,3:4")
    load = Load(cluster, topic)
    load.send()
    moves = [
        {"topic": topic, "partition": 0, "replicas": [3, 4]},
        {"topic": topic, "partition": 1, "replicas": [2, 1]},
    ]
    plan = cluster.home / f"{topic}.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}), "utf-8")
    cluster.tool("reassign-partitions", "--reassignment-json-file", str(plan), "--execute")

    def are_moved() -> bool:
        found = cluster.json_of(f"/brokers/topics/{topic}")
        return bool(found["partitions"] == {"0": [3, 4], "1": [2, 1]} and not found["adding_replicas"])

    wait_for("the replicas have moved", are_moved)
    assert {state["leader"] for state in cluster.states(topic)} <= {3, 2, 4, 1}
    cluster.wait_for_isr(topic, ALL)
    load.send()
    load.check()


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_each_kind_stops_a_broker_of_the_other_gracefully(cluster: BothKinds, kind: str) -> None:
    topic = f"stopped-under-{kind}"
    cluster.controlled_by(kind)
    leaving = next(number for number in KINDS if KINDS[number] == other(kind))
    staying = sorted(ALL - {leaving})
    assignment = ",".join(f"{leaving}:{number}" for number in staying)
    cluster.tool("topics", "--create", "--topic", topic, "--replica-assignment", assignment)
    cluster.wait_for_isr(topic, ALL)
    epochs = [state["leader_epoch"] for state in cluster.states(topic)]
    cluster.stop(leaving)
    # It led everything, and has handed it over before its session ended: one new epoch each.
    assert [state["leader"] for state in cluster.states(topic)] == staying
    assert [state["leader_epoch"] for state in cluster.states(topic)] == [epoch + 1 for epoch in epochs]
    cluster.start(leaving)
    cluster.wait_for_isr(topic, ALL)


@pytest.mark.parametrize("kind", [OURS, APACHE])
def test_each_kind_deletes_what_the_other_has(cluster: BothKinds, kind: str) -> None:
    topic = f"deleted-by-{kind}"
    down = next(number for number in KINDS if KINDS[number] == other(kind))
    cluster.controlled_by(kind)
    create = ["--create", "--topic", topic, "--partitions", str(PARTITIONS), "--replication-factor", "4"]
    cluster.tool("topics", *create)
    cluster.wait_for_isr(topic, ALL)
    cluster.stop(down)
    wait_for("its session is over", lambda: str(down) not in (cluster.children("/brokers/ids") or ()))
    cluster.tool("topics", "--delete", "--topic", topic)
    assert cluster.children("/admin/delete_topics") == [topic]
    assert cluster.children(f"/brokers/topics/{topic}") is not None
    cluster.start(down)
    wait_for("the deletion", lambda: cluster.children(f"/brokers/topics/{topic}") is None)
    wait_for("the end of the request", lambda: cluster.children("/admin/delete_topics") == [])
    folders = [
        folder
        for root in ("broker-1", "broker-2", "ours-3", "ours-4")
        for folder in (cluster.home / root / "data").glob(f"{topic}-*")
        if not folder.name.endswith("-delete")
    ]
    assert folders == []
