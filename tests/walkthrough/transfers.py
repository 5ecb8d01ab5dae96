"""Transactional producers that write without a pause, ours and librdkafka's."""

from __future__ import annotations

import threading

from barnabas.client.sync import Producer
from tests.walkthrough.nodes import Cluster, eventually

# For clients that outlive a coordinator's broker.
PATIENT = {
    "request.timeout.ms": 2_000,
    "retry.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}


class Transfers(threading.Thread):
    """Writes numbered transactions to partitions on two nodes, until it is stopped."""

    def __init__(self, producer: Producer, topic: str) -> None:
        super().__init__(daemon=True)
        self.committed: list[bytes] = []
        self.failure: BaseException | None = None
        self._producer = producer
        self._topic = topic
        self._is_stopped = False

    def run(self) -> None:
        number = 0
        try:
            while not self._is_stopped:
                number += 1
                self._transfer(b"%d" % number)
        except BaseException as error:
            self.failure = error

    def _transfer(self, value: bytes) -> None:
        self._producer.begin_transaction()
        for index in range(2):
            self._producer.send(self._topic, value, partition=index)
        self._producer.commit_transaction()
        self.committed.append(value)

    def wait_for_more(self, count: int = 3) -> None:
        wanted = len(self.committed) + count
        eventually(lambda: len(self.committed) >= wanted or self.failure is not None)
        assert self.failure is None, repr(self.failure)

    def stop(self) -> None:
        self._is_stopped = True
        self.join()
        assert self.failure is None, repr(self.failure)


class ConfluentTransactions:
    """librdkafka's transactional producer, with the calls of ours."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        import confluent_kafka

        self._timeout_s = 60
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap(),
                "transactional.id": name,
                "linger.ms": 0,
                "log_level": 0,
                "socket.timeout.ms": 5_000,
                "transaction.timeout.ms": 60_000,
            }
        )
        self._producer.init_transactions(self._timeout_s)

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self._producer.produce(topic, value, partition=partition)

    def commit_transaction(self) -> None:
        import confluent_kafka

        while True:
            try:
                self._producer.commit_transaction(self._timeout_s)
                return
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def close(self) -> None:
        self._producer.flush(self._timeout_s)


def our_transactions(cluster: Cluster, name: str) -> Producer:
    """Our own producer, initialized; it retries for as long as a broker may be away."""
    patience = {"max.block.ms": 60_000, "delivery.timeout.ms": 60_000}
    given = {"transactional.id": name, "linger.ms": 0, **PATIENT, **patience}
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), **given})
    producer.init_transactions()
    return producer
