"""After the faults: waits until the cluster has recovered, then reads everything."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka import IsolationLevel as Level
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from barnabas.batch.view import batches
from barnabas.testing.histories.events import (
    Event,
    FinalPosition,
    FinalRead,
    Isolation,
    Partition,
    SentAgain,
)
from tools.nemesis.load import value_of

RECOVERY_S = 120
REQUEST_S = 10.0
REPLICAS = 3
LEVELS = {Isolation.COMMITTED: Level.READ_COMMITTED, Isolation.UNCOMMITTED: Level.READ_UNCOMMITTED}


class NotRecovered(Exception):
    """The cluster has not come back in time."""


class Judge:
    """An administrator of the cluster."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 5000, "log_level": 0})

    def create_topics(self, topics: dict[str, int]) -> None:
        """With three replicas each, of which two must have a record."""
        created: set[str] = set()

        def create() -> str | None:
            missing = [
                NewTopic(name, count, REPLICAS, config={"min.insync.replicas": "2"})
                for name, count in topics.items()
                if name not in created
            ]
            for name, future in self._admin.create_topics(missing, request_timeout=REQUEST_S).items():
                try:
                    future.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        return str(error.args[0])
                created.add(name)
            return None

        _wait("topics were not created", create)

    def wait_for_replicas(self, topics: Iterable[str]) -> None:
        """Until every partition has a leader, and all its replicas are in sync."""
        names = set(topics)

        def lacking() -> str | None:
            metadata = self._admin.list_topics(timeout=REQUEST_S)
            if missing := names - set(metadata.topics):
                return f"topics {sorted(missing)} are unknown"
            behind = [
                f"{name}-{number} (leader {partition.leader}, ISR {sorted(partition.isrs)})"
                for name, topic in metadata.topics.items()
                for number, partition in topic.partitions.items()
                if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
            ]
            return f"out of sync: {', '.join(behind)}" if behind else None

        _wait("the replicas did not recover", lacking)

    def wait_for_transactions(self, partitions: Sequence[Partition]) -> None:
        """Until no transaction is open: the last stable offset is the end."""

        def lacking() -> str | None:
            ends = self._offsets(partitions, OffsetSpec.latest(), Isolation.UNCOMMITTED)
            stable = self._offsets(partitions, OffsetSpec.latest(), Isolation.COMMITTED)
            hanging = [
                f"{topic}-{number} (LSO {stable[topic, number]}, end {ends[topic, number]})"
                for topic, number in partitions
                if stable[topic, number] != ends[topic, number]
            ]
            return f"open: {', '.join(hanging)}" if hanging else None

        _wait("transactions did not end", lacking)

    def read(self, partitions: Sequence[Partition], isolation: Isolation) -> list[FinalRead]:
        """Every partition from its start to its end."""
        starts = self._offsets(partitions, OffsetSpec.earliest(), isolation)
        records: dict[Partition, list[tuple[int, str]]] = {partition: [] for partition in partitions}
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "final",
                "isolation.level": isolation.value,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        consumer.assign(
            [TopicPartition(topic, number, starts[topic, number]) for topic, number in partitions]
        )
        ended: set[Partition] = set()
        deadline = time.monotonic() + RECOVERY_S
        while len(ended) < len(partitions):
            if time.monotonic() > deadline:
                raise NotRecovered(f"the final read did not end: {sorted(set(partitions) - ended)}")
            for message in consumer.consume(1000, 0.5):
                place = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is None:
                    records[place].append(
                        (int(message.offset() or 0), value_of(bytes(message.value() or b"")))
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(place)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise NotRecovered(f"the final read was reset: {error}")
        consumer.close()
        return [FinalRead(place, isolation, tuple(found), starts[place]) for place, found in records.items()]

    def positions(self, group: str, *, is_transactional: bool) -> list[FinalPosition]:
        """What a group has committed."""
        found: list[FinalPosition] = []

        def fetch() -> str | None:
            request = [ConsumerGroupTopicPartitions(group)]
            futures = self._admin.list_consumer_group_offsets(request, request_timeout=REQUEST_S)
            committed = futures[group].result()
            found[:] = [
                FinalPosition(group, (each.topic, each.partition), each.offset, is_transactional)
                for each in committed.topic_partitions
                if each.offset >= 0
            ]
            return None

        _wait(f"the offsets of group {group} cannot be read", fetch)
        return found

    def _offsets(
        self, partitions: Sequence[Partition], spec: OffsetSpec, isolation: Isolation
    ) -> dict[Partition, int]:
        requests = {TopicPartition(topic, number): spec for topic, number in partitions}
        found: dict[Partition, int] = {}

        def fetch() -> str | None:
            futures = self._admin.list_offsets(
                requests, isolation_level=LEVELS[isolation], request_timeout=REQUEST_S
            )
            for where, future in futures.items():
                found[where.topic, where.partition] = future.result().offset
            return None

        _wait("offsets cannot be listed", fetch)
        return found


def differing_replicas(folders: Iterable[Path], partitions: Iterable[Partition]) -> list[str]:
    """Partitions whose logs differ between nodes that have stopped: replicas are equal byte for byte."""
    found = []
    for topic, number in partitions:
        logs = {}
        for folder in folders:
            replica = folder / f"{topic}-{number}"
            if replica.is_dir():
                logs[folder] = b"".join(file.read_bytes() for file in sorted(replica.glob("*.log")))
        if len(set(logs.values())) > 1:
            sizes = ", ".join(
                f"{folder.parent.name} {len(content)} bytes" for folder, content in logs.items()
            )
            found.append(f"the replicas of {topic}-{number} differ: {sizes}")
    return found


def sent_again(events: Iterable[Event], folders: Sequence[Path], workers: Container[str]) -> list[SentAgain]:
    """What these workers' client has sent again as new records, by the logs of nodes that have stopped.

    librdkafka bumps its producer epoch when a sequence number was skipped, and sends all that is not
    acknowledged with new ones; also what was written already, if it does not know that.  Apache Kafka keeps
    such a record twice as well (tests/verify/replication/test_replication_librdkafka.py).  A copy with the
    same producer id and epoch is another matter: the broker should have known it.
    """
    places = Counter(
        (event.partition, value)
        for event in events
        if isinstance(event, FinalRead) and event.isolation is Isolation.UNCOMMITTED
        for _, value in event.records
        if value.rpartition("-")[0] in workers
    )
    repeated = {place for place, count in places.items() if count > 1}
    found = []
    for partition in {partition for partition, _ in repeated}:
        for value, epochs in _producer_epochs(folders, partition).items():
            if (partition, value) in repeated and len(set(epochs)) == len(epochs):
                found.append(SentAgain(value))
    return found


def _producer_epochs(folders: Sequence[Path], partition: Partition) -> dict[str, list[tuple[int, int]]]:
    """The producer id and epoch of every copy of a value.  Replicas are equal: one is read."""
    name = f"{partition[0]}-{partition[1]}"
    replica = next(folder / name for folder in folders if (folder / name).is_dir())
    epochs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for file in sorted(replica.glob("*.log")):
        for batch in batches(file.read_bytes()):
            for record in () if batch.is_control else batch.records():
                value = value_of(bytes(record.value or b""))
                epochs[value].append((batch.producer_id, batch.producer_epoch))
    return epochs


def _wait(what: str, lacking: Callable[[], str | None]) -> None:
    """Until nothing is lacking.  Raises NotRecovered with what was."""
    deadline = time.monotonic() + RECOVERY_S
    while True:
        try:
            reason = lacking()
        except KafkaException as error:
            reason = str(error.args[0])
        if reason is None:
            return
        if time.monotonic() > deadline:
            raise NotRecovered(f"{what} within {RECOVERY_S} s: {reason}")
        time.sleep(0.5)
