"""Groups of real clients: they share partitions, follow changes, and continue after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.clients.conftest import start_dev

with warnings.catch_warnings():
    # It loads its own files in a way that Python does not like any more.
    warnings.simplefilter("ignore", DeprecationWarning)
    from aiokafka import AIOKafkaConsumer
    from kafka import KafkaConsumer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PATIENCE_S = 120
PARTITIONS = 4
# Members learn of rebalances with the next heartbeat.
HEARTBEAT_MS = 200
SESSION_MS = 6_000
# kafka-python 3.0 drops an assignment that arrives just as its poll ends, and never requests it again.  Long
# polls make that rare; such a round says nothing about the broker, so there are more rounds.
KAFKA_PYTHON_POLL_MS = 1_000
KAFKA_PYTHON_ROUNDS = 3


class Reader:
    """A member that reads on a thread of its own until it is stopped; what it read and what it owns."""

    def __init__(self, poll: Callable[[], list[bytes]], assignment: Callable[[], list[Any]]) -> None:
        self._poll = poll
        self._assignment = assignment
        self._owned: frozenset[int] = frozenset()
        self.read: list[bytes] = []
        self.is_stopped = False
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def owned(self) -> frozenset[int]:
        return self._owned

    def _run(self) -> None:
        try:
            while not self.is_stopped:
                self.read += self._poll()
                # Clients must be used by one thread.
                self._owned = frozenset(partition.partition for partition in self._assignment())
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self.is_stopped = True
        self.thread.join(PATIENCE_S)
        assert self.failure is None, self.failure


@contextlib.contextmanager
def confluent_reader(bootstrap: str, topic: str, group: str, **more: Any) -> Iterator[Reader]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "session.timeout.ms": SESSION_MS,
            "topic.metadata.refresh.interval.ms": 500,
            **more,
        }
    )
    consumer.subscribe([topic])

    def poll() -> list[bytes]:
        return [one.value() or b"" for one in consumer.consume(100, 0.1) if one.error() is None]

    reader = Reader(poll, consumer.assignment)
    try:
        yield reader
    finally:
        reader.stop()
        consumer.close()


@contextlib.contextmanager
def kafka_python_reader(bootstrap: str, topic: str, group: str, **more: Any) -> Iterator[Reader]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=SESSION_MS,
        metadata_max_age_ms=500,
        fetch_max_wait_ms=50,
        **more,
    )

    def poll() -> list[bytes]:
        return [
            record.value for records in consumer.poll(KAFKA_PYTHON_POLL_MS).values() for record in records
        ]

    reader = Reader(poll, lambda: list(consumer.assignment()))
    try:
        yield reader
    finally:
        reader.stop()
        consumer.close()


READERS = {"confluent": confluent_reader, "kafka-python": kafka_python_reader}


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(admin: AdminClient, topic: str, partitions: int = PARTITIONS) -> None:
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(PATIENCE_S)


def produce(
    bootstrap: str, topic: str, count: int, partitions: int = PARTITIONS, start: int = 0
) -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap})
    values = [str(number).encode() for number in range(start, start + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0
    return set(values)


class NeverCame(AssertionError):
    """What was waited for."""


def until(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > limit:
            raise NeverCame(what)
        time.sleep(0.05)


Scenario = Callable[[str, AdminClient, str, str], None]


def for_each_client(scenario: Scenario) -> Scenario:
    """Run it with each kind of reader; kafka-python gets another round where it lost its assignment."""

    @pytest.mark.parametrize("client", READERS)
    @functools.wraps(scenario)
    def test(bootstrap: str, admin: AdminClient, topic: str, client: str) -> None:
        spare = KAFKA_PYTHON_ROUNDS - 1 if client == "kafka-python" else 0
        for number in range(spare):
            with contextlib.suppress(NeverCame):
                return scenario(bootstrap, admin, f"{topic}-{number}", client)
        return scenario(bootstrap, admin, topic, client)

    return test


def are_shared(readers: list[Reader], partitions: int = PARTITIONS) -> bool:
    """Every partition has one owner."""
    owned = [partition for reader in readers for partition in reader.owned()]
    return sorted(owned) == list(range(partitions))


@for_each_client
def test_members_share_the_partitions_and_each_record_is_read_once(
    bootstrap: str, admin: AdminClient, topic: str, client: str
) -> None:
    create(admin, topic)
    reader = READERS[client]
    with reader(bootstrap, topic, topic) as one, reader(bootstrap, topic, topic) as two:
        until(
            lambda: are_shared([one, two]) and all(len(each.owned()) == 2 for each in (one, two)),
            "not shared",
        )
        sent = produce(bootstrap, topic, 200)
        until(lambda: len(one.read) + len(two.read) >= 200, "not all of it came")
        assert one.read
        assert two.read
        assert {*one.read, *two.read} == sent
        assert len(one.read) + len(two.read) == 200


@for_each_client
def test_excess_members_are_idle_until_others_leave(
    bootstrap: str, admin: AdminClient, topic: str, client: str
) -> None:
    """M-G2: surplus members idle."""
    create(admin, topic, 1)
    reader = READERS[client]
    with reader(bootstrap, topic, topic) as one:
        until(lambda: one.owned() == {0}, "the first did not get it")
        with reader(bootstrap, topic, topic) as two:
            until(lambda: len(members(admin, topic)) == 2 and are_shared([one, two], 1), "not settled")
            produce(bootstrap, topic, 10, 1)
            until(lambda: len(one.read) + len(two.read) == 10, "the owner did not read")
            assert sorted(len(each.read) for each in (one, two)) == [0, 10]
            until(lambda: are_shared([one, two], 1), "not one owner")
        until(lambda: one.owned() == {0}, "it did not come back")


def members(admin: AdminClient, group: str) -> list[Any]:
    found = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    return list(found.members) if found.state.name == "STABLE" else []


@for_each_client
def test_new_partitions_of_a_subscribed_topic_are_read_from_their_start(
    bootstrap: str, admin: AdminClient, topic: str, client: str
) -> None:
    """M-G2: partitions added to a subscribed topic."""
    create(admin, topic, 1)
    with READERS[client](bootstrap, topic, topic) as reader:
        until(lambda: reader.owned() == {0}, "it got no partition")
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
        sent = produce(bootstrap, topic, 30, 3)
        until(lambda: reader.owned() == {0, 1, 2}, "it did not get the new ones")
        until(lambda: len(reader.read) >= 30, "not all of it came")
        assert set(reader.read) == sent


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_every_assignor_works(bootstrap: str, admin: AdminClient, topic: str, strategy: str) -> None:
    """M-G3."""
    create(admin, topic)
    more = {"partition.assignment.strategy": strategy}
    with confluent_reader(bootstrap, topic, topic, **more) as one:
        until(lambda: len(one.owned()) == PARTITIONS, "the first did not get all")
        with confluent_reader(bootstrap, topic, topic, **more) as two:
            until(lambda: are_shared([one, two]) and bool(two.owned()), "not shared")
            described = admin.describe_consumer_groups([topic])[topic].result(PATIENCE_S)
            assert described.partition_assignor == strategy
        until(lambda: len(one.owned()) == PARTITIONS, "the rest did not come back")


def test_aiokafka_members_share_the_partitions(bootstrap: str, admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    sent = produce(bootstrap, topic, 100)

    async def run() -> set[bytes]:
        consumers = [
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=topic,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=HEARTBEAT_MS,
                session_timeout_ms=SESSION_MS,
                fetch_max_wait_ms=50,
            )
            for _ in range(2)
        ]
        results: set[bytes] = set()
        for consumer in consumers:
            await consumer.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while results != sent or not all(len(one.assignment()) == 2 for one in consumers):
                    for consumer in consumers:
                        for records in (await consumer.getmany(timeout_ms=100)).values():
                            results.update(record.value for record in records)
        finally:
            for consumer in consumers:
                await consumer.stop()
        return results

    assert asyncio.run(run()) == sent


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)

    def member(name: str) -> Any:
        return confluent_reader(bootstrap, topic, topic, **{"group.instance.id": name})

    with member("one") as one:
        with member("two") as two:
            until(lambda: are_shared([one, two]) and len(two.owned()) == 2, "not shared")
            before = {each.group_instance_id: each.member_id for each in members(admin, topic)}
            owned = two.owned()
        with member("two") as again:
            until(lambda: again.owned() == owned, "it did not get what it had")
            assert len(one.owned()) == 2
            after = {each.group_instance_id: each.member_id for each in members(admin, topic)}
            assert after["one"] == before["one"]
            assert after["two"] != before["two"]


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_group_continues_after_its_broker_was_killed(tmp_path: Path) -> None:
    """What was committed is not read again, what was not is; members find back by themselves."""
    process, bootstrap = start_dev(tmp_path)
    port = bootstrap.rpartition(":")[2]
    topic = group = "killed"
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        create(admin, topic)
        first = produce(bootstrap, topic, 100)
        with confluent_reader(bootstrap, topic, group, **{"enable.auto.commit": False}) as reader:
            until(lambda: len(reader.read) >= 100, "not all of it came")
        committer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        offsets = [ConfluentPartition(topic, one, 20) for one in range(PARTITIONS)]
        committer.commit(offsets=offsets, asynchronous=False)
        committer.close()
        with confluent_reader(bootstrap, topic, group) as reader:
            until(lambda: len(reader.read) >= 20, "it did not go on at what was committed")
            end(process)
            process, again = start_dev(tmp_path, "--port", port)
            assert again == bootstrap
            second = produce(bootstrap, topic, 40, start=100)
            until(lambda: second <= set(reader.read), "the member did not find back")
            uncommitted = {value for value in first if int(value) // PARTITIONS >= 20}
            assert set(reader.read) == uncommitted | second
    finally:
        end(process)
