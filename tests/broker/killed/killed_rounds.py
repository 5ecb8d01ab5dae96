"""A broker that is killed again and again under load: what it acknowledged against what is there.

The load, the kills and the checks; the tests choose the number of rounds.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.ports import free_ports

TOPIC = "load"
PARTITIONS = 4
START_PATIENCE_S = 120
CLIENT_PATIENCE_S = 120
# What waits in a producer for a broker that is not there.
PENDING_MAX = 2_000
# How long a broker lives under load before it is killed.
LIFE_S = (0.3, 1.2)
PROGRESS = 1_000
CODECS = ("none", "gzip", "lz4")


@dataclass
class Outcome:
    """What became of all records: (partition, offset) by producer and number."""

    acknowledged: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    refused: list[KafkaError] = field(default_factory=list)
    found: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    # In the order of the log, by partition and producer.
    orders: dict[tuple[int, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    topics_made: list[str] = field(default_factory=list)
    topics_found: set[str] = field(default_factory=set)

    def check(self) -> None:
        assert self.refused == []
        assert len(self.acknowledged) > 0
        lost = [one for one in self.acknowledged if one not in self.found]
        assert lost == [], (
            f"{len(lost)} of {len(self.acknowledged)} acknowledged records are lost: {lost[:5]}"
        )
        twice = {one: places for one, places in self.found.items() if len(places) > 1}
        assert twice == {}, f"{len(twice)} records are there twice: {list(twice.items())[:5]}"
        moved = [one for one, place in self.acknowledged.items() if self.found[one] != [place]]
        assert moved == [], f"{len(moved)} records are not where they were said to be: {moved[:5]}"
        assert all(numbers == sorted(numbers) for numbers in self.orders.values()), "out of order"
        assert set(self.topics_made) <= self.topics_found


class KilledBroker:
    """`barnabas dev` on one folder and one port, in one process after the other."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        [self.port] = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "barnabas",
            "dev",
            "--port",
            str(self.port),
            "--data",
            str(self.folder / "data"),
            *self.options,
        ]
        environment = {**os.environ, "BARNABAS_STATE": str(self.folder / "state")}
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        limit = time.monotonic() + START_PATIENCE_S
        while not self._listens():
            assert self.process.poll() is None, (self.folder / "log.txt").read_text("utf-8")[-3000:]
            assert time.monotonic() < limit, (self.folder / "log.txt").read_text("utf-8")[-3000:]
            time.sleep(0.02)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def faults(self) -> list[str]:
        lines = (self.folder / "log.txt").read_text("utf-8").splitlines()
        return [line for line in lines if " ERROR " in line or "Traceback" in line]


class Load(threading.Thread):
    """An idempotent producer that waits for all and goes on whatever happens to the broker."""

    def __init__(self, bootstrap: str, codec: str, outcome: Outcome) -> None:
        super().__init__(daemon=True)
        self.codec = codec
        self.outcome = outcome
        self.ended = threading.Event()
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 2,
                "message.timeout.ms": 1000 * CLIENT_PATIENCE_S,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.ended.is_set():
            if len(self.producer) < PENDING_MAX:
                for _ in range(20):
                    self._send(number)
                    number += 1
            self.producer.poll(0.005)
        left = self.producer.flush(CLIENT_PATIENCE_S)
        assert left == 0, f"{left} records of {self.codec} were never answered"

    def _send(self, number: int) -> None:
        value = f"{self.codec} {number} {'x' * (number % 97)}"
        self.producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.outcome.refused.append(error)
        else:
            codec, number, _ = (message.value() or b"").decode().split(" ")
            self.outcome.acknowledged[codec, int(number)] = (message.partition() or 0, message.offset() or 0)


@contextmanager
def loads(bootstrap: str, outcome: Outcome) -> Iterator[list[Load]]:
    running = [Load(bootstrap, codec, outcome) for codec in CODECS]
    for load in running:
        load.start()
    try:
        yield running
    finally:
        for load in running:
            load.ended.set()
        for load in running:
            load.join(2 * CLIENT_PATIENCE_S)


def rounds(folder: Path, count: int, seed: int) -> Outcome:
    """Kill it so many times; what was promised and what is there in the end."""
    chance = random.Random(seed)
    outcome = Outcome()
    broker = KilledBroker(folder)
    try:
        broker.start()
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        with loads(broker.bootstrap, outcome):
            for number in range(count):
                await_progress(outcome)
                time.sleep(chance.uniform(*LIFE_S))
                name = f"made-in-{number}"
                make_topic(broker.bootstrap, name, 1)
                outcome.topics_made.append(name)
                broker.kill()
                broker.start()
        read_all(broker.bootstrap, outcome)
        assert broker.faults() == []
    finally:
        broker.kill()
    return outcome


def await_progress(outcome: Outcome) -> None:
    """Until the producers have found the broker: a life without writes would prove nothing."""
    wanted = len(outcome.acknowledged) + PROGRESS
    limit = time.monotonic() + CLIENT_PATIENCE_S
    while len(outcome.acknowledged) < wanted:
        assert time.monotonic() < limit, "nothing is acknowledged"
        time.sleep(0.01)


def make_topic(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=CLIENT_PATIENCE_S)[name].result(
        CLIENT_PATIENCE_S
    )


def read_all(bootstrap: str, outcome: Outcome) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False})
    outcome.topics_found = set(consumer.list_topics(timeout=CLIENT_PATIENCE_S).topics)
    places = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    ends = {
        place.partition: consumer.get_watermark_offsets(place, timeout=CLIENT_PATIENCE_S)[1]
        for place in places
    }
    consumer.assign(places)
    left = sum(ends.values())
    limit = time.monotonic() + CLIENT_PATIENCE_S
    while left:
        assert time.monotonic() < limit, f"{left} records cannot be read"
        for message in consumer.consume(10_000, timeout=1):
            assert message.error() is None, message.error()
            codec, number, _ = (message.value() or b"").decode().split(" ")
            outcome.found[codec, int(number)].append((message.partition() or 0, message.offset() or 0))
            outcome.orders[message.partition() or 0, codec].append(int(number))
            left -= 1
    consumer.close()
