"""A broker that is killed again and again in the middle of transactions: what it acknowledged against what
read_committed consumers see.

The load, the kills and the checks; the tests choose the number of rounds.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.broker.killed.killed_rounds import CLIENT_PATIENCE_S, KilledBroker, make_topic

TOPIC = "ledger"
PARTITIONS = 3
PRODUCERS = 3
RECORDS = (1, 8)
# Of ten transactions, so many are aborted.
ABORTED_OF_TEN = 3
# How long a broker lives under load before it is killed.
LIFE_S = (0.2, 0.8)
PROGRESS = 30
CALL_PATIENCE_S = 5
TRANSACTION_TIMEOUT_MS = 10_000
# The coordinators' topics need not be as large as they are by default.
FEW_PARTITIONS = (
    "--override",
    "transaction.state.log.num.partitions=4",
    "--override",
    "offsets.topic.num.partitions=4",
)

# Whose, and which one.
Name = tuple[int, int]


@dataclass
class Outcome:
    """What became of all transactions."""

    sent: dict[Name, int] = field(default_factory=dict)
    committed: set[Name] = field(default_factory=set)
    aborted: set[Name] = field(default_factory=set)
    # Given up without a word about its end; it may be there or not, but whole.
    unknown: set[Name] = field(default_factory=set)
    found: dict[Name, list[int]] = field(default_factory=lambda: defaultdict(list))

    def check(self) -> None:
        assert self.committed and self.aborted
        for name, numbers in self.found.items():
            assert sorted(numbers) == list(range(self.sent[name])), f"{name} is torn: {sorted(numbers)}"
        lost = self.committed - set(self.found)
        assert lost == set(), f"{len(lost)} committed transactions are lost: {sorted(lost)[:5]}"
        leaked = self.aborted & set(self.found)
        assert leaked == set(), f"{len(leaked)} aborted transactions are read: {sorted(leaked)[:5]}"
        assert set(self.found) <= self.committed | self.unknown


class Load(threading.Thread):
    """A transactional producer that starts a new transaction when the broker has cost it one."""

    def __init__(self, bootstrap: str, number: int, seed: int, outcome: Outcome) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._number = number
        self._chance = random.Random(seed)
        self._outcome = outcome
        self._next = 0
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                self._live()
            self._begin()  # ends what an earlier one may have left open
        except BaseException as error:
            self.error = error
            raise

    def _begin(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "transactional.id": f"load-{self._number}",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )
        limit = time.monotonic() + CLIENT_PATIENCE_S
        while True:
            try:
                producer.init_transactions(CALL_PATIENCE_S)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > limit:
                    raise
            else:
                return producer

    def _live(self) -> None:
        """Until the end, or until the producer cannot go on."""
        producer = self._begin()
        while not self.ended.is_set():
            name = (self._number, self._next)
            self._next += 1
            aborts = self._chance.randrange(10) < ABORTED_OF_TEN
            try:
                self._write(producer, name)
                if aborts:
                    self._finish(producer.abort_transaction)
                    self._outcome.aborted.add(name)
                else:
                    self._finish(producer.commit_transaction)
                    self._outcome.committed.add(name)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._finish(producer.abort_transaction)
                    self._outcome.aborted.add(name)
                    continue
                self._outcome.unknown.add(name)
                return

    def _write(self, producer: Producer, name: Name) -> None:
        producer.begin_transaction()
        count = self._outcome.sent[name] = self._chance.randint(*RECORDS)
        for index in range(count):
            value = f"{name[0]} {name[1]} {index}"
            producer.produce(TOPIC, value, partition=self._chance.randrange(PARTITIONS))
        if self._chance.randrange(3) == 0:
            producer.flush(CALL_PATIENCE_S)

    def _finish(self, context: object) -> None:
        """Ask until there is an answer: what a producer has asked for it must hear the end of."""
        assert callable(context)
        limit = time.monotonic() + CLIENT_PATIENCE_S
        while True:
            try:
                context(CALL_PATIENCE_S)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > limit:
                    raise
            else:
                return


def rounds(folder: Path, count: int, seed: int) -> Outcome:
    """Kill it so many times; what was promised and what is there in the end."""
    chance = random.Random(seed)
    outcome = Outcome()
    broker = KilledBroker(folder, *FEW_PARTITIONS)
    try:
        broker.start()
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        running = [Load(broker.bootstrap, number, seed + number, outcome) for number in range(PRODUCERS)]
        for load in running:
            load.start()
        for _ in range(count):
            await_progress(outcome)
            time.sleep(chance.uniform(*LIFE_S))
            broker.kill()
            broker.start()
        await_progress(outcome)
        for load in running:
            load.ended.set()
        for load in running:
            load.join(2 * CLIENT_PATIENCE_S)
            assert load.error is None, load.error
            assert not load.is_alive()
        read_all(broker.bootstrap, outcome)
        assert broker.faults() == []
    finally:
        broker.kill()
    return outcome


def await_progress(outcome: Outcome) -> None:
    """Until the producers have found the broker: a life without transactions would prove nothing."""
    wanted = len(outcome.committed) + PROGRESS
    limit = time.monotonic() + CLIENT_PATIENCE_S
    while len(outcome.committed) < wanted:
        assert time.monotonic() < limit, "nothing is committed"
        time.sleep(0.01)


def read_all(bootstrap: str, outcome: Outcome) -> None:
    """All of it, to the end: no transaction may be left open."""
    options = {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False}
    places = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    ends = log_ends(options, places)
    consumer = Consumer({**options, "enable.partition.eof": True, "isolation.level": "read_committed"})
    consumer.assign(places)
    limit = time.monotonic() + CLIENT_PATIENCE_S
    reached: set[int] = set()
    while len(reached) < PARTITIONS:
        assert time.monotonic() < limit, f"a transaction is open: only {reached} of {ends} can be read"
        for message in consumer.consume(10_000, timeout=1):
            if message.error() is not None:
                # The end, for a read_committed consumer.
                partition = message.partition()
                if message.offset() == ends[partition or 0]:
                    reached.add(partition or 0)
                continue
            whose, which, index = map(int, (message.value() or b"").split())
            outcome.found[whose, which].append(index)
    consumer.close()


def log_ends(options: dict[str, Any], places: list[TopicPartition]) -> dict[int, int]:
    """Where the log of each partition ends, and not only what is stable of it."""
    consumer = Consumer({**options, "isolation.level": "read_uncommitted"})
    ends = {
        place.partition: consumer.get_watermark_offsets(place, timeout=CLIENT_PATIENCE_S)[1]
        for place in places
    }
    consumer.close()
    return ends
