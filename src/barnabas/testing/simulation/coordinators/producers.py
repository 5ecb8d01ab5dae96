"""Transactional producers in the simulated world: they write, commit, abort and restart; not a scenario.

Contains what such clients do, in both versions of the protocol (before and with transaction.version 2,
KIP-890).  Invariants of what they wrote belong in the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.broker.replicas.transaction_checks import TransactionalWrite
from barnabas.coordinator.txn.ending import EndRequest
from barnabas.coordinator.txn.machine import Ended, Initialised, InitRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.simulated.world import World
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.coordinators.shard_host import Wire
from barnabas.testing.simulation.coordinators.transaction_broker import (
    OffsetsInTransactions,
    TransactionsBroker,
)

R = TypeVar("R")
TIMEOUT_MS = 900
REQUEST_TIMEOUT_NS = 300 * NS_PER_MS
BACKOFF_NS = 40 * NS_PER_MS
MAX_TRIES = 25
GROUP = "sink"
# A producer that gets one of these errors has been replaced.
_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
_RETRIED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NETWORK_EXCEPTION,
)


class Outcome(Enum):
    """The result that a producer got for the end of its transaction."""

    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass
class Attempt:
    """One transaction, as its producer knows it."""

    number: int
    # Values that it wrote and that were acknowledged.
    values: dict[TopicPartition, set[bytes]] = field(default_factory=dict)
    offset: int | None = None
    # Whether it has requested the commit: if not, the transaction can never be committed.
    may_be_committed: bool = False
    outcome: Outcome = Outcome.UNKNOWN


class Producers:
    """State shared by all producers of a world."""

    def __init__(self, world: World, broker: TransactionsBroker, wire: Wire, *, bumps: bool) -> None:
        self.world = world
        self.broker = broker
        self.wire = wire
        self.random = world.random_for("producers")
        # Whether clients use transaction.version 2.
        self.bumps = bumps
        self.attempts: dict[int, Attempt] = {}

    def new_attempt(self) -> Attempt:
        attempt = Attempt(len(self.attempts) + 1)
        self.attempts[attempt.number] = attempt
        return attempt


class Producer:
    """One incarnation of a transactional producer: it ends when it crashes, is replaced or gives up."""

    def __init__(self, scene: Producers, transactional_id: str, name: str) -> None:
        self.scene = scene
        self.transactional_id = transactional_id
        self.name = name
        self.is_alive = True
        self.is_done = False
        self._producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._tries = 0
        self._attempt: Attempt | None = None
        self._left: list[Callable[[], None]] = []
        # A batch with an unknown result may yet be written: the epoch must grow before the next one.
        self._is_unsure = False
        self._initialise()

    def __repr__(self) -> str:
        return f"{self.name} of {self.transactional_id}"

    @property
    def is_idle(self) -> bool:
        """It has stopped, with no transaction open."""
        return self.is_done and self._attempt is None

    def crash(self) -> None:
        self.scene.world.agenda.note(f"{self!r} crashes")
        self.is_alive = False

    def stop_after_this(self) -> None:
        """Begin no further transaction."""
        self.is_done = True

    # Requests

    def _call(
        self, ask: Callable[[], Promise[R]], then: Callable[[R], None], again: Callable[[], None]
    ) -> None:
        """Send the request until there is a response other than a retriable error."""

        def heard(answer: R | KafkaError | None) -> None:
            if not self.is_alive:
                return
            code = answer.code if isinstance(answer, KafkaError) else None
            if isinstance(answer, ErrorCode) and answer is not ErrorCode.NONE:
                code = answer
            if code in _FENCED:
                self.crash()
            elif answer is None or code in _RETRIED:
                self._try_again(again)
            elif code is not None:
                self._refused(code)
            else:
                self._tries = 0
                then(answer)  # type: ignore[arg-type]  # errors are dealt with

        self.scene.wire.call(ask, heard, REQUEST_TIMEOUT_NS)

    def _try_again(self, again: Callable[[], None]) -> None:
        self._tries += 1
        if self._tries > MAX_TRIES:
            self.crash()  # after so many retries it is restarted by its operator
            return
        self._later(again)

    def _later(self, action: Callable[[], None]) -> None:
        delay_ns = self.scene.random.integer(1, 2 * BACKOFF_NS)
        self.scene.world.agenda.after(delay_ns, partial(self._if_alive, action))

    def _if_alive(self, action: Callable[[], None]) -> None:
        if self.is_alive:
            action()

    def _refused(self, code: ErrorCode) -> None:
        """Another error: the transaction is aborted, or if there is none, the producer gives up."""
        self.scene.world.agenda.note(f"{self!r} is refused with {code.name}")
        if self._attempt is None or self._attempt.may_be_committed:
            self.crash()
        else:
            self._is_unsure = True
            self._end(commit=False)

    # Beginning

    def _initialise(self) -> None:
        request = InitRequest(self.transactional_id, TIMEOUT_MS)
        self._call(lambda: self.scene.broker.driver.initialise(request), self._initialised, self._initialise)

    def _initialised(self, reply: Initialised) -> None:
        self._take_epoch((reply.producer_id, reply.producer_epoch))
        self._is_unsure = False
        self._begin()

    def _take_epoch(self, producer: tuple[int, int]) -> None:
        if producer != self._producer:
            self._producer = producer
            self._sequences.clear()

    def _begin(self) -> None:
        self._attempt = None
        if self.is_done:
            return
        random = self.scene.random
        self._attempt = attempt = self.scene.new_attempt()
        names = [partition for partition in self.scene.broker.partitions if random.integer(0, 2)]
        steps: list[Callable[[], None]] = []
        for name in names:
            steps += [partial(self._produce, attempt, name) for _ in range(random.integer(1, 2))]
        if random.integer(0, 1):
            steps.append(partial(self._commit_offset, attempt))
        if not self.scene.bumps:
            offsets = [OffsetsInTransactions.NAME]
            steps.insert(0, partial(self._add, frozenset([*names, *offsets])))
        self._left = steps
        self._go_on()

    def _go_on(self) -> None:
        if self._left:
            self._later(self._left.pop(0))
        else:
            self._later(partial(self._end, commit=self.scene.random.integer(0, 3) > 0))

    # Writing

    def _add(self, partitions: frozenset[TopicPartition]) -> None:
        producer = self._producer
        self._call(
            lambda: self.scene.broker.driver.add_partitions(self.transactional_id, producer, partitions, 0),
            lambda _: self._go_on(),
            partial(self._add, partitions),
        )

    def _produce(self, attempt: Attempt, name: TopicPartition) -> None:
        count = self.scene.random.integer(1, 3)
        sequence = self._sequences.get(name, 0)
        values = {f"{attempt.number}/{name.partition}/{sequence + index}".encode() for index in range(count)}
        self._send(attempt, name, sorted(values), sequence)

    def _send(self, attempt: Attempt, name: TopicPartition, values: list[bytes], sequence: int) -> None:
        producer_id, epoch = self._producer
        records = [Record(index, 0, None, value) for index, value in enumerate(values)]
        write = TransactionalWrite(
            self.transactional_id, producer_id, epoch, [name], self.scene.bumps, knows_abortable=True
        )

        def ask() -> Promise[ErrorCode]:
            batch = build(
                records,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
            return self.scene.broker.produce(write, batch)

        def written(_: ErrorCode) -> None:
            self._sequences[name] = sequence + len(values)
            attempt.values.setdefault(name, set()).update(values)
            self._go_on()

        self._call(ask, written, partial(self._send, attempt, name, values, sequence))

    def _commit_offset(self, attempt: Attempt) -> None:
        """Each transaction commits its own number."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name="source",
                    partitions=[
                        TxnOffsetCommitRequest.Partition(
                            partition_index=0, committed_offset=attempt.number, committed_metadata=""
                        )
                    ],
                )
            ],
        )

        def taken(_: TxnOffsetCommitResponse) -> None:
            attempt.offset = attempt.number
            self._go_on()

        bumps = self.scene.bumps
        self._call(
            lambda: self.scene.broker.offsets.commit(request, may_add=bumps),
            taken,
            partial(self._commit_offset, attempt),
        )

    # Ending

    def _end(self, *, commit: bool) -> None:
        attempt = self._attempt
        assert attempt is not None, "a transaction is open"
        is_empty = not attempt.values and attempt.offset is None
        if is_empty and self.scene.bumps and not self._is_unsure:
            self._begin()  # nothing was begun
            return
        attempt.may_be_committed = commit
        self._left = []
        request = EndRequest(*self._producer, commit, 2 if self.scene.bumps else 0)

        def ended(reply: Ended) -> None:
            attempt.outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
            self._take_epoch((reply.producer_id, reply.producer_epoch))
            self._attempt = None
            if self._is_unsure and not self.scene.bumps:
                self._initialise()
            else:
                self._is_unsure = False
                self._begin()

        self._call(
            lambda: self.scene.broker.driver.end(self.transactional_id, request),
            ended,
            partial(self._end_again, attempt, request, ended),
        )

    def _end_again(self, attempt: Attempt, request: EndRequest, ended: Callable[[Ended], None]) -> None:
        self._call(
            lambda: self.scene.broker.driver.end(self.transactional_id, request),
            ended,
            partial(self._end_again, attempt, request, ended),
        )
