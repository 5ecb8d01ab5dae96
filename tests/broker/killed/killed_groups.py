"""A broker that is killed again and again with groups and open transactions live: what survives.

Members of both protocols, a copier that reads, writes and commits exactly once, members and transactions that
are killed with the broker, and the checks.  The tests choose the number of rounds.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.broker.killed.killed_rounds import KilledBroker, make_topic

SOURCE, SINK = "source", "sink"
PARTITIONS = 3
SESSION_MS = 2_000
TRANSACTION_MS = 5_000
PATIENCE_S = 120
CLASSIC, MODERN, COPIER = "classic", "modern", "copier"
RECONNECTS = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    # The client would forget the one broker that there is while it is away, and with it a transaction's state.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
OPTIONS = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
# A member that joins, says so, and waits to be killed.
GHOST = """
import sys
from confluent_kafka import Consumer
consumer = Consumer(dict(one.split("=") for one in sys.argv[2:]))
consumer.subscribe([sys.argv[1]], on_assign=lambda *_: print("joined", flush=True))
while True:
    consumer.poll(1)
"""


@dataclass
class Outcome:
    """What was acknowledged, and what was found."""

    # Group -> partition -> the highest offset whose commit was confirmed.
    acknowledged: dict[str, dict[int, int]] = field(
        default_factory=lambda: {CLASSIC: {}, MODERN: {}, COPIER: {}}
    )
    written: set[str] = field(default_factory=set)
    copied: list[str] = field(default_factory=list)
    ghosts_shown: list[str] = field(default_factory=list)
    commits: int = 0
    transactions: int = 0

    def check(self) -> None:
        assert self.commits > 0
        assert self.transactions > 0
        assert self.ghosts_shown == [], "transactions that were not committed are shown"
        assert len(self.copied) == len(set(self.copied)), "records were copied twice"
        missing = self.written - set(self.copied)
        assert not missing, f"{len(missing)} of {len(self.written)} records were not copied: {missing}"
        assert set(self.copied) == self.written

    def note(self, group: str, partition: int, offset: int) -> None:
        known = self.acknowledged[group]
        known[partition] = max(known.get(partition, 0), offset)


class Worker(threading.Thread):
    """Goes on whatever happens to the broker; it starts again when its client cannot recover."""

    def __init__(self, bootstrap: str, outcome: Outcome) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.outcome = outcome
        self.ended = threading.Event()
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                with suppress(KafkaException):
                    self.work()
        except BaseException as error:
            self.fault = error
            raise

    def work(self) -> None:
        raise NotImplementedError


class Writer(Worker):
    """Fills the source, slowly."""

    def work(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **RECONNECTS})
        number = 0
        while not self.ended.is_set():
            for partition in range(PARTITIONS):
                producer.produce(SOURCE, f"{number}", partition=partition, on_delivery=self._delivered)
                number += 1
            producer.poll(0.02)
        assert producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, error
        self.outcome.written.add((message.value() or b"").decode())


class Reader(Worker):
    """A member that commits what it has read, and waits for the acknowledgement."""

    def __init__(self, bootstrap: str, outcome: Outcome, group: str) -> None:
        super().__init__(bootstrap, outcome)
        self.group = group

    def work(self) -> None:
        consumer = Consumer({**member_options(self.bootstrap, self.group), "enable.auto.commit": False})
        consumer.subscribe([SOURCE])
        try:
            while not self.ended.is_set():
                messages = [one for one in consumer.consume(100, 0.1) if one.error() is None]
                if messages:
                    self._commit(consumer, messages)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer, messages: list[Message]) -> None:
        ends = {one.partition() or 0: (one.offset() or 0) + 1 for one in messages}
        offsets = [TopicPartition(SOURCE, partition, offset) for partition, offset in ends.items()]
        with suppress(KafkaException):
            for one in consumer.commit(offsets=offsets, asynchronous=False) or []:
                if one.error is None:
                    self.outcome.note(self.group, one.partition, one.offset)
                    self.outcome.commits += 1


class Copier(Worker):
    """From source to sink, each record once."""

    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": "copier",
                "transaction.timeout.ms": TRANSACTION_MS,
                **RECONNECTS,
            }
        )
        producer.init_transactions(PATIENCE_S)
        options = {**member_options(self.bootstrap, COPIER), "isolation.level": "read_committed"}
        consumer = Consumer({**options, "enable.auto.commit": False})
        consumer.subscribe([SOURCE])
        try:
            while not self.ended.is_set():
                messages = [one for one in consumer.consume(50, 0.1) if one.error() is None]
                if messages:
                    self._copy(producer, consumer, messages)
        finally:
            consumer.close()

    def _copy(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
        """An error ends this life of the copier; the next one goes on where the last commit was."""
        producer.begin_transaction()
        for one in messages:
            producer.produce(SINK, one.value(), partition=one.partition() or 0)
        ends = {one.partition() or 0: (one.offset() or 0) + 1 for one in messages}
        offsets = [TopicPartition(SOURCE, partition, offset) for partition, offset in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 20)
        producer.commit_transaction(20)
        self.outcome.transactions += 1
        for place in offsets:
            self.outcome.note(COPIER, place.partition, place.offset)


def member_options(bootstrap: str, group: str) -> dict[str, object]:
    by_protocol: dict[str, object] = {"group.protocol": "consumer"}
    if group != MODERN:
        by_protocol = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        **by_protocol,
        **RECONNECTS,
    }


@contextmanager
def workers(broker: KilledBroker, outcome: Outcome) -> Iterator[list[Worker]]:
    where = broker.bootstrap
    running: list[Worker] = [Copier(where, outcome), Writer(where, outcome)]
    running += [Reader(where, outcome, group) for group in (CLASSIC, CLASSIC, MODERN, MODERN)]
    for one in running:
        one.start()
    try:
        yield running
    finally:
        for one in running:
            one.ended.set()
        for one in running:
            one.join(PATIENCE_S)
        assert [one.fault for one in running if one.fault is not None] == []


class Ghosts:
    """A member of each group and an open transaction, which are killed together with the broker."""

    def __init__(self, bootstrap: str, number: int) -> None:
        self._members = [self._member(bootstrap, group) for group in (CLASSIC, MODERN)]
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"ghost-{number % 2}",
                "transaction.timeout.ms": TRANSACTION_MS,
                **RECONNECTS,
            }
        )
        self._producer.init_transactions(PATIENCE_S)
        self._producer.begin_transaction()
        for partition in range(PARTITIONS):
            self._producer.produce(SINK, f"ghost {number}", partition=partition)
        self._producer.flush(PATIENCE_S)

    @staticmethod
    def _member(bootstrap: str, group: str) -> subprocess.Popen[bytes]:
        options = [f"{name}={value}" for name, value in member_options(bootstrap, group).items()]
        return subprocess.Popen([sys.executable, "-c", GHOST, SOURCE, *options], stdout=subprocess.PIPE)

    def wait(self) -> None:
        """Until they are what they should be."""
        for member in self._members:
            assert member.stdout is not None
            assert member.stdout.readline() == b"joined\n"

    def kill(self) -> None:
        for member in self._members:
            member.kill()
            member.communicate()


def rounds(folder: Path, count: int) -> Outcome:
    """Kill it so many times; what was acknowledged and what is there in the end."""
    outcome = Outcome()
    overrides = [word for name, value in OPTIONS.items() for word in ("--override", f"{name}={value}")]
    broker = KilledBroker(folder, *overrides)
    try:
        broker.start()
        for topic in (SOURCE, SINK):
            make_topic(broker.bootstrap, topic, PARTITIONS)
        with workers(broker, outcome) as running:
            await_progress(outcome)
            for number in range(count):
                ghosts = Ghosts(broker.bootstrap, number)
                ghosts.wait()
                broker.kill()
                ghosts.kill()
                broker.start()
                check_committed(broker.bootstrap, outcome)
                await_progress(outcome)
            finish(broker.bootstrap, running, outcome)
        read_sink(broker.bootstrap, outcome)
        assert broker.faults() == []
    finally:
        broker.kill()
    return outcome


def await_progress(outcome: Outcome) -> None:
    """Every group goes on with every partition: a dead member holds none for longer than its session."""
    before = {group: dict(offsets) for group, offsets in outcome.acknowledged.items()}
    limit = time.monotonic() + PATIENCE_S
    while not all(
        offsets.get(partition, 0) > before[group].get(partition, 0)
        for group, offsets in outcome.acknowledged.items()
        for partition in range(PARTITIONS)
    ):
        assert time.monotonic() < limit, f"a group stands still: {before} and then {outcome.acknowledged}"
        time.sleep(0.02)


def check_committed(bootstrap: str, outcome: Outcome) -> None:
    """What was confirmed before the kill is there after it."""
    acknowledged = {group: dict(offsets) for group, offsets in outcome.acknowledged.items()}
    for group, offsets in acknowledged.items():
        found = committed(bootstrap, group)
        lost = {one: (offset, found[one]) for one, offset in offsets.items() if found[one] < offset}
        assert not lost, f"{group}: partition -> (acknowledged, found): {lost}"


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """Asked by a client that is no member."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **RECONNECTS})
    try:
        places = [TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
        return {one.partition: one.offset for one in consumer.committed(places, timeout=PATIENCE_S)}
    finally:
        consumer.close()


def finish(bootstrap: str, running: list[Worker], outcome: Outcome) -> None:
    """No more records; all that there are are copied and read to the end, so that nothing lags behind."""
    writer = next(one for one in running if isinstance(one, Writer))
    writer.ended.set()
    writer.join(PATIENCE_S)
    limit = time.monotonic() + PATIENCE_S
    ends = watermarks(bootstrap, SOURCE)
    while any(committed(bootstrap, group) != ends for group in (COPIER, CLASSIC, MODERN)):
        assert time.monotonic() < limit, (ends, outcome.acknowledged)
        time.sleep(0.2)


def watermarks(bootstrap: str, topic: str) -> dict[int, int]:
    # Where the log ends, not what is stable of it: a transaction may still be open.
    options = {"bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": "read_uncommitted"}
    consumer = Consumer({**options, **RECONNECTS})
    try:
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)[1]
            for partition in range(PARTITIONS)
        }
    finally:
        consumer.close()


def read_sink(bootstrap: str, outcome: Outcome) -> None:
    """All of it, up to the end: control records and aborted ones are passed over, and nothing stays open."""
    options = {"bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": "read_committed"}
    consumer = Consumer({**options, "enable.auto.commit": False, "enable.partition.eof": True, **RECONNECTS})
    ends = watermarks(bootstrap, SINK)
    consumer.assign([TopicPartition(SINK, partition, 0) for partition in range(PARTITIONS)])
    limit = time.monotonic() + PATIENCE_S
    try:
        while not _is_at(consumer, ends):
            assert time.monotonic() < limit, "what is stable does not reach the end"
            for message in consumer.consume(1_000, timeout=0.2):
                if message.error() is None:
                    value = (message.value() or b"").decode()
                    (outcome.ghosts_shown if value.startswith("ghost") else outcome.copied).append(value)
    finally:
        consumer.close()


def _is_at(consumer: Consumer, ends: dict[int, int]) -> bool:
    """Whether its next record would be behind these ends, the gaps of control records included."""
    places = consumer.position([TopicPartition(SINK, partition) for partition in ends])
    return all(one.offset >= ends[one.partition] for one in places)
