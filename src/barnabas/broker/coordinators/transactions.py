"""The transaction coordinators of this broker: their shards, and what happens between decisions.

What lives here: questions of handlers on their way to a shard, producer ids fetched for them, and what is
done when time passes.  What may not: decisions (coordinator/txn), markers (txn_endings.py) and answers'
shapes (handlers/).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.batch.compression import Codec
from barnabas.broker.coordinators.marker_sender import MarkerSender
from barnabas.broker.coordinators.markers import Markers
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.coordinators.transaction_verifier import TransactionVerifier
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.sliced_work import SlicedWork
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.txn.ending import EndRequest, NeedsProducerId
from barnabas.coordinator.txn.listing import Filter
from barnabas.coordinator.txn.machine import (
    Ended,
    Initialised,
    InitRequest,
    Prepared,
    TransactionMachine,
)
from barnabas.coordinator.txn.transaction import Transaction
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

_MS = 1_000_000
# How long sweeps may hold the loop, and how many ids are looked at in one step.
SWEEP_SLICE_NS = 10_000_000
IDS_PER_STEP = 1_000


class Transactions:
    """Of one broker.  For the loop's thread."""

    def __init__(
        self, broker: Broker, replicas: ReplicaManager, timers: TimerService, groups: Shards[GroupMachine]
    ) -> None:
        settings = broker.settings
        self._broker = broker
        self._replicas = replicas
        self._timers = timers
        self.shards: Shards[TransactionMachine] = Shards(
            broker,
            replicas,
            timers,
            topic=TRANSACTION_STATE,
            partitions=settings["transaction.state.log.num.partitions"],
            make_machine=self._make_machine,
            codec=lambda: Codec.NONE,
            commit_timeout_ms=settings["request.timeout.ms"],
            load_bytes=settings["transaction.state.log.load.buffer.size"],
        )
        self.markers = Markers(broker, replicas, groups)
        self.endings = MarkerSender(broker, self.shards, self.markers, timers, self._coordinator_epoch)
        self._sweeps = SlicedWork(timers, broker.clock.monotonic_ns, lambda: None, SWEEP_SLICE_NS)
        replicas.verifier = TransactionVerifier(broker, self, timers)
        self._each("transaction.abort.timed.out.transaction.cleanup.interval.ms", self._look_at_open)
        self._each("transaction.remove.expired.transaction.cleanup.interval.ms", self._expire)

    def stop(self) -> None:
        self.endings.stop()
        self._sweeps.stop()
        for action in (self._look_at_open, self._expire):
            self._timers.cancel((self, action.__name__))

    # Shards come and go

    def _make_machine(self, index: int) -> TransactionMachine:
        return TransactionMachine(partial(self._loaded, index), partial(self.endings.drop, index))

    def _loaded(self, index: int, machine: TransactionMachine) -> None:
        for prepared in machine.prepared():
            self.endings.start(index, prepared)

    def _coordinator_epoch(self, index: int) -> int:
        """The epoch of the partition's leader: partitions refuse markers of an older coordinator."""
        return self._replicas.find(TRANSACTION_STATE, index).leader_epoch

    # What producers ask

    def initialise(self, request: InitRequest) -> Promise[Initialised]:
        """A producer's id and epoch."""
        answer: Promise[Initialised] = Promise()
        self._initialise(answer, request, None)
        return answer

    def _initialise(
        self, answer: Promise[Initialised], request: InitRequest, new_producer_id: int | None
    ) -> None:
        def told(reply: Initialised | Prepared | NeedsProducerId) -> None:
            if isinstance(reply, Initialised):
                answer.set(reply)
            elif isinstance(reply, Prepared):
                self._end(reply)
                # The client comes again; by then its predecessor's transaction is aborted.
                answer.fail(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
            else:
                self._with_producer_id(partial(self._initialise, answer, request), answer.fail)

        self.shards.ask(
            request.transactional_id,
            lambda machine, context: machine.initialise(context, request, new_producer_id),
        ).then(told, answer.fail)

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Promise[None]:
        return self.shards.ask(
            transactional_id,
            lambda machine, context: machine.add_partitions(
                context, transactional_id, *producer, partitions, client_version
            ),
        )

    def verify_partitions(
        self, transactional_id: str, producer: tuple[int, int], partitions: Sequence[TopicPartition]
    ) -> Promise[dict[TopicPartition, ErrorCode]]:
        def decide(machine: TransactionMachine, _: Context) -> Decision[dict[TopicPartition, ErrorCode]]:
            return Decision((), machine.verify(transactional_id, *producer, partitions))

        return self.shards.ask(transactional_id, decide)

    def end(self, transactional_id: str, request: EndRequest) -> Promise[Ended]:
        """The id and epoch with which the producer goes on."""
        answer: Promise[Ended] = Promise()
        self._end_for(answer, transactional_id, request, None)
        return answer

    def _end_for(
        self,
        answer: Promise[Ended],
        transactional_id: str,
        request: EndRequest,
        new_producer_id: int | None,
    ) -> None:
        def told(reply: Prepared | Ended | NeedsProducerId) -> None:
            if isinstance(reply, Ended):
                answer.set(reply)
            elif isinstance(reply, Prepared):
                # It is decided: the producer need not wait for all partitions to hear of it.  Those that are
                # told at once are told before, so that its next transaction finds this one complete.
                self._end(reply)
                answer.set(Ended(*reply.producer))
            else:
                again = partial(self._end_for, answer, transactional_id, request)
                self._with_producer_id(again, answer.fail)

        self.shards.ask(
            transactional_id,
            lambda machine, context: machine.end(context, transactional_id, request, new_producer_id),
        ).then(told, answer.fail)

    def _end(self, prepared: Prepared) -> None:
        self.endings.start(self.shards.partition_for(prepared.transaction.transactional_id), prepared)

    def _with_producer_id(self, then: Callable[[int], None], fail: Callable[[BaseException], None]) -> None:
        self._replicas.producer_ids.next().then(then, fail)

    # What administrators ask

    def matching(self, wanted: Filter) -> Promise[list[Transaction]]:
        """Of all coordinators here; refused while one of them is loading."""
        answer: Promise[list[Transaction]] = Promise()
        if self.shards.is_loading:
            answer.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return answer
        self._match(answer, wanted, self.shards.active(), [])
        return answer

    def _match(
        self,
        answer: Promise[list[Transaction]],
        wanted: Filter,
        indexes: Iterator[int],
        found: list[Transaction],
    ) -> None:
        def decide(machine: TransactionMachine, context: Context) -> Decision[list[Transaction]]:
            return Decision((), list(wanted.chosen(machine.transactions.values(), context.now_ms)))

        go_on = partial(self._match, answer, wanted, indexes)
        for index in indexes:
            promise = self.shards.ask_partition(index, decide)
            if promise.done:
                promise.then(found.extend, lambda _: None)  # one that has gone meanwhile lists nothing
                continue
            promise.then(lambda more: go_on([*found, *more]), lambda _: go_on(found))
            return
        answer.set(found)

    # Time passes

    def _each(self, interval: str, action: Callable[[], None]) -> None:
        """Now and then, in this interval of the settings."""
        interval_ms: int = self._broker.settings[interval]

        def run() -> None:
            set_timer()
            action()

        def set_timer() -> None:
            deadline_ns = self._broker.clock.monotonic_ns() + interval_ms * _MS
            self._timers.set((self, action.__name__), deadline_ns, run)

        set_timer()

    def _look_at_open(self) -> None:
        """Abort what has timed out, and go on with ends that nobody is at work on."""
        for index in self.shards.active():
            self._look_at_open_of(index)

    def _look_at_open_of(self, index: int) -> None:
        def decide(machine: TransactionMachine, context: Context) -> Decision[list[str]]:
            left = [one for one in machine.prepared() if one.transaction.transactional_id not in self.endings]
            return Decision(
                (), machine.timed_out(context.now_ms), committed=partial(self._go_on, index, machine, left)
            )

        self.shards.ask_partition(index, decide).then(
            lambda found: self._sweeps.add(self._abort(found)), _log_sweep
        )

    def _go_on(self, index: int, machine: TransactionMachine, left: list[Prepared]) -> None:
        """Whoever asked for these ends was told that the replicas are too slow, and now they have them."""
        for prepared in left:
            transaction = prepared.transaction
            transactional_id = transaction.transactional_id
            if (
                machine.transactions.get(transactional_id) is transaction
                and transactional_id not in self.endings
            ):
                self.endings.start(index, prepared)

    def _abort(self, transactional_ids: list[str]) -> Iterator[None]:
        for transactional_id in transactional_ids:
            logger.info("the transaction of %r has timed out and is aborted", transactional_id)
            self._abort_one(transactional_id)
            yield

    def _abort_one(self, transactional_id: str) -> None:
        def told(reply: Prepared | None) -> None:
            if reply is not None:
                self._end(reply)

        self.shards.ask(
            transactional_id,
            lambda machine, context: machine.abort_timed_out(context, transactional_id),
        ).then(told, _log_sweep)

    def _expire(self) -> None:
        def decide(machine: TransactionMachine, _: Context) -> Decision[list[str]]:
            return Decision((), list(machine.transactions))

        for index in self.shards.active():
            self.shards.ask_partition(index, decide).then(partial(self._expire_among, index), _log_sweep)

    def _expire_among(self, index: int, transactional_ids: list[str]) -> None:
        self._sweeps.add(self._forget(index, transactional_ids))

    def _forget(self, index: int, transactional_ids: list[str]) -> Iterator[None]:
        for start in range(0, len(transactional_ids), IDS_PER_STEP):
            step = transactional_ids[start : start + IDS_PER_STEP]
            decide = partial(TransactionMachine.expire, transactional_ids=step)
            self.shards.ask_partition(index, decide).then(lambda _: None, _log_sweep)
            yield


def _log_sweep(error: BaseException) -> None:
    logger.warning("transactions that are out of time are left for the next round: %s", error)
