"""A producer in a thread that writes numbered records with acks=all, and what was acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.batch.view import batches
from barnabas.client import TopicPartition
from barnabas.client.errors import KafkaError
from barnabas.client.sync import Consumer, Producer
from tests.walkthrough.nodes import Cluster, Node, eventually

# Deliveries may wait for an election.
PATIENT = {"delivery.timeout.ms": 60_000, "request.timeout.ms": 5_000, "acks": "all", "linger.ms": 2}


class Load:
    """Records of consecutive numbers; `acknowledged` are those that the cluster has confirmed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        # Partition and offset -> number.
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.failed: list[Exception] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, **PATIENT})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            pending = []
            for _ in range(20):
                pending.append((number, self._producer.send(self.topic, value=str(number).encode())))
                number += 1
            self._producer.flush()
            for sent, future in pending:
                try:
                    delivered = future.result(60)
                except KafkaError as error:
                    self.failed.append(error)
                else:
                    self.acknowledged[delivered.partition, delivered.offset] = sent

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
        self._producer.close()

    def wait_for_more(self, records: int = 200) -> None:
        """Until this many further records are acknowledged."""
        wanted = len(self.acknowledged) + records
        eventually(lambda: len(self.acknowledged) >= wanted, "nothing is acknowledged any more")


@contextmanager
def load_on(cluster: Cluster, topic: str) -> Iterator[Load]:
    load = Load(cluster.bootstrap(), topic)
    load.start()
    try:
        yield load
    finally:
        load.stop()


def read_back(bootstrap: str, topic: str, ends: dict[int, int]) -> dict[tuple[int, int], int]:
    """Every record up to these ends, by partition and offset."""
    found: dict[tuple[int, int], int] = {}
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in ends]
        consumer.assign(partitions)
        left = {partition for partition, end in ends.items() if end}
        while left:
            for record in consumer.poll(timeout_ms=500):
                assert isinstance(record.value, bytes)
                found[record.partition, record.offset] = int(record.value)
                if record.offset + 1 >= ends[record.partition]:
                    left.discard(record.partition)
    return found


def batches_of(node: Node, topic: str, partition: int) -> bytes:
    """All batches of a node's log, of whichever segments."""
    folder = node.data / f"{topic}-{partition}"
    return b"".join(_batches(path) for path in sorted(folder.glob("*.log")))


def _batches(path: Path) -> bytes:
    content = path.read_bytes()
    return b"".join(bytes(memoryview(batch.buffer)[batch.start : batch.end]) for batch in batches(content))


def isr_of(cluster: Cluster, topic: str, *node_ids: int) -> dict[int, tuple[int, set[int]]]:
    """Partition -> leader and ISR, as these brokers know them."""
    with cluster.admin(*node_ids) as admin:
        described = admin.describe_topics([topic])[topic]
    return {
        one.partition: (-1 if one.leader is None else one.leader, set(one.isr))
        for one in described.partitions
    }


def wait_for_isr(cluster: Cluster, topic: str, brokers: set[int]) -> None:
    """Until each of these brokers knows that they are the ISR of all partitions."""

    def is_there() -> bool:
        try:
            known = [isr_of(cluster, topic, broker_id).values() for broker_id in brokers]
            return all(isr == brokers for partitions in known for _, isr in partitions)
        except (KafkaError, OSError):
            return False

    eventually(is_there, f"the ISR did not become {brokers}")


def wait_until_equal(nodes: list[Node], topic: str, partition: int) -> bytes:
    def equal() -> bytes | None:
        contents = {batches_of(node, topic, partition) for node in nodes}
        return contents.pop() if len(contents) == 1 else None

    return eventually(equal, f"the logs of {topic}-{partition} differ")
