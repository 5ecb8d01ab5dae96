"""A cluster that goes back to an earlier state."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.client.sync import Consumer as OurConsumer
from barnabas.testing import Cluster, KitError

TIMEOUT_S = 60.0


@pytest.mark.parametrize("brokers", [1, 3])
def test_topics_records_offsets_and_transactions_come_back(brokers: int) -> None:
    with Cluster(brokers) as cluster:
        topic = cluster.topic("orders", partitions=2)
        large = b"x" * 200_000
        topic.send("kept", partition=0)
        topic.send(large, partition=1)
        with OurConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="app") as consumer:
            consumer.subscribe([topic.name])
            while not consumer.assignment():
                consumer.poll(timeout_ms=50)
            consumer.commit(dict.fromkeys(consumer.assignment(), 1))
        snapshot, servers = cluster.snapshot(), cluster.bootstrap_servers
        for _ in range(2):
            topic.send("lost", partition=0)
            cluster.topic("lost-too")
            cluster.delete_topics(["orders"])
            cluster.kill(1)
            cluster.restore(snapshot)
            assert cluster.bootstrap_servers == servers and cluster.interventions() == []
            assert cluster.topic_names() == {"orders"}
            assert sorted(record.value or b"" for record in topic.all_records()) == [b"kept", large]
            assert set(cluster.group("app").offsets().values()) == {1}
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "t"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(topic.name, b"written", partition=0)
        producer.commit_transaction(TIMEOUT_S)
        reader = Consumer({"bootstrap.servers": servers, "group.id": "app", "auto.offset.reset": "earliest"})
        reader.subscribe([topic.name])
        message = reader.poll(TIMEOUT_S)
        assert message is not None and message.value() == b"written"
        reader.close()


def test_what_cannot_be_restored_is_refused(tmp_path: Path) -> None:
    text = "snapshot of another cluster"
    with Cluster() as first, Cluster() as second, pytest.raises(KitError, match=text):
        second.restore(first.snapshot())
    with Cluster(folder=str(tmp_path / "data")) as cluster, pytest.raises(KitError, match="in memory"):
        cluster.snapshot()
