"""The load: producers, transactions, consumers and groups, each a thread that records what it sees."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from barnabas.testing.histories.events import (
    Acknowledged,
    Assigned,
    CommitRequested,
    Isolation,
    Partition,
    Polled,
    SendFailed,
    Sent,
    TransactionBegun,
    TransactionEnded,
    TransactionOutcome,
)
from tools.nemesis.clients import (
    AbortableError,
    ConsumerClient,
    FatalError,
    Library,
    ProducerClient,
    Record,
    RefusedError,
    RetriableError,
)
from tools.nemesis.recorder import Recorder

POLL_S = 0.3
BACKOFF_S = 0.5
MAX_PADDING = 300
# A transaction in so many is aborted.
ABORTED_IN = 5
MAX_TRANSACTION_RECORDS = 8
# How often a call is made again before its outcome counts as unknown.
MAX_RETRIES = 4
COMMIT_EVERY_S = 1.0
# A client that is created again in the middle of a run, as an application that is deployed or crashes.
MIN_LIFE_S, MAX_LIFE_S = 20.0, 60.0


def value_of(payload: bytes) -> str:
    return payload.partition(b" ")[0].decode("ascii")


@dataclass(frozen=True)
class Setting:
    """What all applications of a run share."""

    bootstrap: str
    recorder: Recorder
    seed: int


class Worker(ABC, threading.Thread):
    """One application.  It lives on when its client dies: `live` is called again."""

    def __init__(self, name: str, library: Library, setting: Setting) -> None:
        super().__init__(name=name, daemon=True)
        self.random = Random(f"{setting.seed} {name}")
        self.library = library
        self.bootstrap = setting.bootstrap
        self.recorder = setting.recorder
        self.stopping = threading.Event()
        self.instance = 0
        self._count = 0

    @property
    def client_name(self) -> str:
        """The name of this instance of the client."""
        return f"{self.name}.{self.instance}"

    def run(self) -> None:
        while not self.stopping.is_set():
            self.instance += 1
            try:
                self.live(time.monotonic() + self.random.uniform(MIN_LIFE_S, MAX_LIFE_S))
            except Exception as error:
                # Whatever a client raises, the load goes on; what it means is for the checker.
                self.recorder.note(f"{self.library.name} {type(self).__name__}: {_short(error)}")
                self.stopping.wait(BACKOFF_S)

    @abstractmethod
    def live(self, until_s: float) -> None:
        """One instance of the client."""

    def is_over(self, until_s: float) -> bool:
        return self.stopping.is_set() or time.monotonic() > until_s

    def send(
        self,
        producer: ProducerClient,
        partition: Partition,
        transaction: str | None = None,
        source: str | None = None,
    ) -> None:
        self._count += 1
        value = f"{self.name}-{self._count}"
        self.recorder.add(Sent(value, self.client_name, partition, transaction, source=source))
        payload = f"{value} {'x' * self.random.randrange(MAX_PADDING)}".encode()

        def delivered(offset: int | None, error: str | None) -> None:
            if error is None:
                self.recorder.add(Acknowledged(value, offset))
            else:
                self.recorder.add(SendFailed(value))
                self.recorder.note(f"{self.library.name} delivery: {error}")

        try:
            producer.send(partition, payload, delivered)
        except RefusedError:
            self.recorder.add(SendFailed(value, is_definite=True))
            raise


class IdempotentWorker(Worker):
    """Sends without transactions, at a steady rate."""

    BURST = 10
    PAUSE_S = 0.04

    def __init__(
        self,
        name: str,
        library: Library,
        setting: Setting,
        partitions: Sequence[Partition],
    ) -> None:
        super().__init__(name, library, setting)
        self._partitions = partitions

    def live(self, until_s: float) -> None:
        producer = self.library.producer(self.bootstrap)
        try:
            while not self.is_over(until_s):
                for _ in range(self.BURST):
                    try:
                        self.send(producer, self.random.choice(self._partitions))
                    except RefusedError:
                        self.stopping.wait(BACKOFF_S)
                self.stopping.wait(self.PAUSE_S)
            producer.flush(20)
        finally:
            producer.close()


class TransactionalWorker(Worker):
    """Sends in transactions, and aborts some."""

    PAUSE_S = 0.03

    def __init__(
        self,
        name: str,
        library: Library,
        setting: Setting,
        partitions: Sequence[Partition],
    ) -> None:
        super().__init__(name, library, setting)
        self._partitions = partitions
        self._transactions = 0

    def live(self, until_s: float) -> None:
        producer = self.library.producer(self.bootstrap, self.name)
        try:
            _again(producer.init_transactions)
            while not self.is_over(until_s):
                self._transact(producer)
                self.stopping.wait(self.PAUSE_S)
        finally:
            producer.close()

    def _transact(self, producer: ProducerClient) -> None:
        transaction = self.begin(producer)
        try:
            for _ in range(self.random.randint(1, MAX_TRANSACTION_RECORDS)):
                self.send(producer, self.random.choice(self._partitions), transaction)
            if self.random.randrange(ABORTED_IN) == 0:
                raise AbortableError("as drawn")
            self.commit(producer, transaction)
        except (AbortableError, RefusedError):
            self.abort(producer, transaction)
        except Exception:
            self.recorder.add(TransactionEnded(transaction, TransactionOutcome.UNKNOWN))
            raise

    def begin(self, producer: ProducerClient) -> str:
        self._transactions += 1
        transaction = f"{self.name}-t{self._transactions}"
        producer.begin()
        self.recorder.add(TransactionBegun(transaction, self.client_name))
        return transaction

    def commit(self, producer: ProducerClient, transaction: str) -> None:
        self.recorder.add(CommitRequested(transaction))
        _again(producer.commit)
        self.recorder.add(TransactionEnded(transaction, TransactionOutcome.COMMITTED))

    def abort(self, producer: ProducerClient, transaction: str) -> None:
        try:
            _again(producer.abort)
        except Exception:
            self.recorder.add(TransactionEnded(transaction, TransactionOutcome.UNKNOWN))
            raise
        self.recorder.add(TransactionEnded(transaction, TransactionOutcome.ABORTED))


class ExactlyOnceWorker(TransactionalWorker):
    """Reads a topic as a member of a group and writes one output for each input, in transactions."""

    def __init__(
        self,
        name: str,
        library: Library,
        setting: Setting,
        partitions: Sequence[Partition],
        group: str,
        topic: str,
    ) -> None:
        super().__init__(name, library, setting, partitions)
        self._group = group
        self._topic = topic

    def live(self, until_s: float) -> None:
        producer = self.library.producer(self.bootstrap, self.name)
        consumer = self.library.consumer(self.bootstrap, Isolation.COMMITTED, self._group)
        try:
            _again(producer.init_transactions)
            consumer.subscribe([self._topic], self._assigned)
            while not self.is_over(until_s):
                records = consumer.poll(POLL_S)
                if records:
                    self._process(producer, consumer, records)
        finally:
            consumer.close()
            producer.close()

    def _assigned(self, partitions: Sequence[Partition]) -> None:
        self.recorder.add(Assigned(self.client_name, dict.fromkeys(partitions)))

    def _process(self, producer: ProducerClient, consumer: ConsumerClient, records: Sequence[Record]) -> None:
        transaction = self.begin(producer)
        read = tuple((partition, offset, value_of(payload)) for partition, offset, payload in records)
        self.recorder.add(Polled(self.client_name, Isolation.COMMITTED, read, self._group, transaction))
        try:
            for _, _, value in read:
                self.send(producer, self.random.choice(self._partitions), transaction, source=value)
            positions = {partition: offset + 1 for partition, offset, _ in read}
            _again(lambda: producer.send_offsets(consumer, positions))
            if self.random.randrange(ABORTED_IN) == 0:
                raise AbortableError("as drawn")
            self.commit(producer, transaction)
        except (AbortableError, RefusedError):
            self.abort(producer, transaction)
            consumer.rewind()
            self.recorder.add(Assigned(self.client_name, {}))
        except Exception:
            self.recorder.add(TransactionEnded(transaction, TransactionOutcome.UNKNOWN))
            raise


class Reader(Worker):
    """Reads all partitions from the start, without a group; its next client continues where it was."""

    def __init__(
        self,
        name: str,
        library: Library,
        setting: Setting,
        partitions: Sequence[Partition],
        isolation: Isolation,
    ) -> None:
        super().__init__(name, library, setting)
        self._isolation = isolation
        self._positions = dict.fromkeys(partitions, 0)

    def live(self, until_s: float) -> None:
        consumer = self.library.consumer(self.bootstrap, self._isolation)
        try:
            consumer.assign(self._positions)
            self.recorder.add(Assigned(self.client_name, dict(self._positions)))
            while not self.is_over(until_s):
                self._poll(consumer)
        finally:
            consumer.close()

    def _poll(self, consumer: ConsumerClient) -> None:
        try:
            records = consumer.poll(POLL_S)
        except RetriableError as error:
            self.recorder.note(f"{self.library.name} poll: {_short(error)}")
            self.stopping.wait(BACKOFF_S)
            return
        if records:
            read = tuple((partition, offset, value_of(payload)) for partition, offset, payload in records)
            self.recorder.add(Polled(self.client_name, self._isolation, read))
            self._positions |= {partition: offset + 1 for partition, offset, _ in read}


class Member(Worker):
    """A member of a group that commits what it has read."""

    def __init__(
        self,
        name: str,
        library: Library,
        setting: Setting,
        topics: Sequence[str],
        group: str,
        isolation: Isolation,
    ) -> None:
        super().__init__(name, library, setting)
        self._topics = topics
        self._group = group
        self._isolation = isolation
        self._read: dict[Partition, int] = {}

    def live(self, until_s: float) -> None:
        consumer = self.library.consumer(self.bootstrap, self._isolation, self._group)
        self._read = {}
        try:
            consumer.subscribe(self._topics, self._assigned)
            commit_at_s = time.monotonic() + COMMIT_EVERY_S
            while not self.is_over(until_s):
                self._poll(consumer)
                if time.monotonic() > commit_at_s and self._read:
                    commit_at_s = time.monotonic() + COMMIT_EVERY_S
                    self._commit(consumer)
        finally:
            consumer.close()

    def _assigned(self, partitions: Sequence[Partition]) -> None:
        self._read = {}
        self.recorder.add(Assigned(self.client_name, dict.fromkeys(partitions)))

    def _poll(self, consumer: ConsumerClient) -> None:
        try:
            records = consumer.poll(POLL_S)
        except RetriableError as error:
            self.recorder.note(f"{self.library.name} poll: {_short(error)}")
            self.stopping.wait(BACKOFF_S)
            return
        if records:
            read = tuple((partition, offset, value_of(payload)) for partition, offset, payload in records)
            self.recorder.add(Polled(self.client_name, self._isolation, read, self._group))
            self._read |= {partition: offset + 1 for partition, offset, _ in read}

    def _commit(self, consumer: ConsumerClient) -> None:
        try:
            consumer.commit(self._read)
            self._read = {}
        except RetriableError as error:
            self.recorder.note(f"{self.library.name} commit: {_short(error)}")


def _again(call: object) -> None:
    """Make a call until it succeeds, fails for good, or was made often enough."""
    assert callable(call)
    for attempt in range(MAX_RETRIES):
        try:
            call()
        except RetriableError as error:
            if attempt == MAX_RETRIES - 1:
                raise FatalError(f"its outcome is unknown: {error}") from error
            time.sleep(BACKOFF_S)
        else:
            return


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
