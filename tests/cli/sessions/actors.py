"""Clients that produce and consume while a session runs: the `&` lines of its file.

    & produce TOPIC PARTITION COUNT [timestamp=MS] [size=BYTES]    records, sent and acknowledged
    & commit GROUP TOPIC:PARTITION=OFFSET...           offsets, for a group without members
    & join NAME group.id=G topic=T [OPTION=VALUE...]   a consumer with this client id, from here on; it is
                                                       waited for until it has partitions (but: assigned=no)
    & leave NAME                                       and no longer
    & begin ID TOPIC PARTITION COUNT [OPTION=VALUE...] a transaction that stays open, with records
    & end ID commit|abort                              or not
    & rest MS                                          nothing, for as long

They are barnabas clients, also in recordings with Apache Kafka: only the tools are compared.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from barnabas.client.model import OffsetAndMetadata, TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer

PATIENCE_S = 120
POLL_MS = 50
CONSUMER_OPTIONS = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "50"}


class Actors:
    """All running clients; they are closed at the end."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._members: dict[str, Member] = {}
        self._producers: dict[str, Producer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members.values():
            member.leave()
        for producer in self._producers.values():
            producer.close(timeout_ms=0)

    def act(self, line: str) -> None:
        """Executes one line; raises for an unknown action."""
        if not line.startswith("& "):
            return
        verb, *words = line[2:].split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        match verb:
            case "produce":
                self._produce(names[0], int(names[1]), int(names[2]), options)
            case "commit":
                self._commit(names[0], options)
            case "join":
                topic, waits = options.pop("topic"), options.pop("assigned", "yes") == "yes"
                config = {**CONSUMER_OPTIONS, "bootstrap.servers": self._server, **options}
                self._members[names[0]] = Member({**config, "client.id": names[0]}, topic, waits=waits)
            case "leave":
                self._members.pop(names[0]).leave()
            case "begin":
                self._begin(names[0], names[1], int(names[2]), int(names[3]), options)
            case "end":
                producer = self._producers.pop(names[0])
                producer.commit_transaction() if names[1] == "commit" else producer.abort_transaction()
                producer.close()
            case "rest":
                time.sleep(int(names[0]) / 1000)
            case _:
                raise AssertionError(f"unknown action {verb}")

    def _produce(self, topic: str, partition: int, count: int, options: dict[str, str]) -> None:
        timestamp, size = options.get("timestamp"), int(options.get("size", "0"))
        with Producer({"bootstrap.servers": self._server}) as producer:
            for number in range(count):
                when = None if timestamp is None else int(timestamp) + number
                value = b"%d" % number
                producer.send(topic, value.ljust(size, b"."), partition=partition, timestamp_ms=when)
            producer.flush()

    def _commit(self, group: str, offsets: dict[str, str]) -> None:
        wanted = {}
        for place, offset in offsets.items():
            topic, _, partition = place.partition(":")
            wanted[TopicPartition(topic, int(partition))] = OffsetAndMetadata(int(offset))
        with Admin({"bootstrap.servers": self._server}) as admin:
            admin.alter_consumer_group_offsets(group, wanted).raise_first()

    def _begin(
        self, transactional_id: str, topic: str, partition: int, count: int, options: dict[str, str]
    ) -> None:
        config = {"bootstrap.servers": self._server, "transactional.id": transactional_id, **options}
        producer = Producer(config)
        self._producers[transactional_id] = producer
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition)
        producer.flush()


class Member:
    """A consumer in its own thread that polls until it leaves."""

    def __init__(self, config: dict[str, str], topic: str, *, waits: bool) -> None:
        self._consumer = Consumer(config)
        self._topic = topic
        self._over = threading.Event()
        self._assigned = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        if waits:
            assert self._assigned.wait(PATIENCE_S), f"{config['client.id']} is not assigned anything"

    def _live(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._over.is_set():
            self._consumer.poll(timeout_ms=POLL_MS)
            if self._consumer.assignment():
                self._assigned.set()
        self._consumer.close()

    def leave(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
