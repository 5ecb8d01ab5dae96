"""librdkafka's transactional producers and the groups of their consumers across orderly stops of the
broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.ports import free_ports
from tools.raw_broker import BrokerProcess

TIMEOUT_S = 120
SOURCE, SINK = "source", "sink"
RESTARTS, AT_ONCE = 2, 5
OPTIONS = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    # With its default librdkafka 2.16 forgets the one broker that there is while it is away, and the
    # transaction never continues; the same happens with Apache Kafka.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


def test_open_transactions_continue_after_orderly_restarts(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with BrokerProcess(tmp_path, "--port", str(port)) as broker:
        place = {"bootstrap.servers": f"127.0.0.1:{port}", **OPTIONS}
        make_topics(place)
        consumer = Consumer(
            {**place, "group.id": "copier", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe([SOURCE])
        producer = Producer({**place, "transactional.id": "copier"})
        producer.init_transactions(TIMEOUT_S)
        copied: list[bytes | None] = []
        for _ in range(RESTARTS):
            messages = consumer.consume(AT_ONCE, TIMEOUT_S)
            assert [message.error() for message in messages] == [None] * AT_ONCE
            producer.begin_transaction()
            for message in messages:
                producer.produce(SINK, message.value())
            producer.flush(TIMEOUT_S)
            assert broker.stop() == 0
            broker.start()
            next_offset = (messages[-1].offset() or 0) + 1
            offsets = [TopicPartition(SOURCE, 0, next_offset)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S)
            copied += [message.value() for message in messages]
        [committed] = consumer.committed([TopicPartition(SOURCE, 0)], TIMEOUT_S)
        consumer.close()
        assert committed.offset == len(copied) == RESTARTS * AT_ONCE
        assert read(place, len(copied)) == copied
    assert not broker.faults


def make_topics(place: dict[str, Any]) -> None:
    admin = AdminClient(place)
    for future in admin.create_topics([NewTopic(SOURCE, 1, 1), NewTopic(SINK, 1, 1)]).values():
        future.result(TIMEOUT_S)
    producer = Producer(place)
    for number in range(RESTARTS * AT_ONCE):
        producer.produce(SOURCE, b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0


def read(place: dict[str, Any], count: int) -> list[bytes | None]:
    reader = Consumer({**place, "group.id": "reader", "isolation.level": "read_committed"})
    reader.assign([TopicPartition(SINK, 0, 0)])
    messages = reader.consume(count, TIMEOUT_S)
    reader.close()
    return [message.value() for message in messages]
