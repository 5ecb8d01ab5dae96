"""confluent-kafka's consumers in groups of both protocols, against a broker in a separate process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.worlds.live_broker import live_broker
from tools.raw_broker import BrokerProcess

PARTITIONS = 6
RECORDS = 60
POLL_S = 0.05
# Polls before a condition is given up, independent of the machine's speed.
PATIENCE = 2_400
OPTIONS = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    overrides = [word for name, value in OPTIONS.items() for word in ("--override", f"{name}={value}")]
    with live_broker(*overrides) as running:
        yield running


class Members:
    """Consumers of one group; all are polled while a test waits."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str) -> None:
        host, port = broker.address
        self.bootstrap = f"{host}:{port}"
        self.group = group
        self.topic = topic
        self.values: list[bytes] = []
        self.produced = 0
        self._running: list[Consumer] = []
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
            future.result()

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in list(self._running):
            self.leave(consumer)

    def join(self, protocol: str = "consumer", **more: Any) -> Consumer:
        options: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **({"heartbeat.interval.ms": 50, "session.timeout.ms": 6000} if protocol == "classic" else {}),
        }
        consumer = Consumer({**options, **more})
        consumer.subscribe([self.topic])
        self._running.append(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self._running.remove(consumer)
        consumer.close()

    def poll(self) -> None:
        for consumer in self._running:
            message = consumer.poll(POLL_S / len(self._running))
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(PATIENCE):
            if condition():
                return
            self.poll()
        owned = [[one.partition for one in consumer.assignment()] for consumer in self._running]
        raise AssertionError(f"it never came to be: {owned} are owned, {len(self.values)} records were read")

    def until_shared(self, *sizes: int) -> None:
        """Waits until all partitions are owned once, with this many per member."""

        def shared() -> bool:
            owned = [[one.partition for one in consumer.assignment()] for consumer in self._running]
            whole = sorted(partition for some in owned for partition in some)
            return whole == list(range(PARTITIONS)) and sorted(map(len, owned)) == sorted(sizes)

        self.until(shared)

    def described(self) -> Any:
        """Describes with a new client, as one that lost its connection may take long to notice."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        return admin.describe_consumer_groups([self.group])[self.group].result()

    def produce(self) -> None:
        """Produces new records."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.produced, self.produced + RECORDS):
            producer.produce(self.topic, str(number).encode(), partition=number % PARTITIONS)
        assert producer.flush(120) == 0
        self.produced += RECORDS

    def until_all_read(self) -> None:
        """Waits until all are read; some perhaps twice, as a partition may move before a commit."""
        self.until(lambda: len(set(self.values)) == self.produced)


def test_members_share_take_over_and_resume(broker: BrokerProcess) -> None:
    with Members(broker, "shared", "shared") as members:
        members.produce()
        first = members.join()
        members.until_all_read()
        first.commit(asynchronous=False)
        members.join(**{"group.instance.id": "one"})
        members.until_shared(3, 3)
        members.join(**{"group.remote.assignor": "range"})
        members.until_shared(2, 2, 2)
        members.until(lambda: members.described().state is ConsumerGroupState.STABLE)
        assert members.described().partition_assignor == "range"
        members.leave(first)
        members.until_shared(3, 3)
        members.produce()
        members.until_all_read()
        assert len(members.values) == members.produced, "committed records are not read again"


def test_committed_offsets_count_after_the_group_was_empty(broker: BrokerProcess) -> None:
    # Trap 21.
    with Members(broker, "resumed", "resumed") as members:
        members.produce()
        first = members.join()
        members.until_all_read()
        first.commit(asynchronous=False)
        members.leave(first)
        assert members.described().state is ConsumerGroupState.EMPTY
        members.produce()
        members.join()
        members.until_all_read()
        assert len(members.values) == members.produced


def test_a_group_is_upgraded_and_downgraded_while_members_run(broker: BrokerProcess) -> None:
    with Members(broker, "moved", "moved") as members:
        members.produce()
        old = [members.join("classic"), members.join("classic")]
        members.until_shared(3, 3)
        new = members.join()
        members.until_shared(2, 2, 2)
        assert members.described().type.name == "CONSUMER"
        for consumer in old:
            members.leave(consumer)
        members.until_shared(6)
        members.join("classic")
        members.until_shared(3, 3)
        members.leave(new)
        members.until_shared(6)
        assert members.described().type.name == "CLASSIC"
        members.until_all_read()


def test_members_continue_after_the_broker_was_killed() -> None:
    overrides = [word for name, value in OPTIONS.items() for word in ("--override", f"{name}={value}")]
    with live_broker(*overrides) as broker, Members(broker, "killed", "killed") as members:
        members.produce()
        members.join()
        members.join()
        members.until_shared(3, 3)
        members.until_all_read()
        produced = members.produced
        before = members.described()
        broker.kill()
        broker.options = (*broker.options, "--port", str(broker.address[1]))
        broker.start()
        members.produce()
        members.until_all_read()
        # Of earlier ones, those fetched before the last rebalance may have come once more.
        later = [value for value in members.values if int(value) >= produced]
        assert len(later) == RECORDS, "no member had to rejoin"
        assert {one.member_id for one in members.described().members} == {
            one.member_id for one in before.members
        }
