"""The transaction coordinators of this broker: their shards, and the steps between decisions.

Contains requests to shards, the allocation of producer ids for them, and periodic tasks.  Decisions belong in
coordinator/txn, markers in marker_sender.py, responses in handlers/.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.base.units import NS_PER_MS
from barnabas.batch.compression import Codec
from barnabas.broker.coordinators.marker_sender import MarkerSender
from barnabas.broker.coordinators.markers import Markers
from barnabas.broker.coordinators.remote.marker_requests import MarkerRequests
from barnabas.broker.coordinators.remote.verification_requests import VerificationRequests
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.coordinators.transaction_verifier import TransactionVerifier
from barnabas.broker.peers.broker_channel import BrokerChannel
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
from barnabas.metadata.delta import Delta
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

# How long periodic sweeps may hold the loop, and how many ids one step expires.
SWEEP_SLICE_NS = 10_000_000
IDS_PER_STEP = 1_000


class Transactions:
    """The transaction coordinators of one broker.  Runs on the event loop's thread."""

    def __init__(
        self,
        broker: Broker,
        replicas: ReplicaManager,
        timers: TimerService,
        groups: Shards[GroupMachine],
        channel: Callable[[str], BrokerChannel],
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
        # Markers may wait for slow replicas, which must not delay verifications: each has its connections.
        marker_requests = MarkerRequests(broker, channel("markers"), timers)
        self._verifications = VerificationRequests(broker, channel("verification"), timers)
        self.marker_sender = MarkerSender(
            broker, replicas.broker_id, self.shards, self.markers, marker_requests, timers
        )
        self._sweeps = SlicedWork(timers, broker.clock.monotonic_ns, lambda: None, SWEEP_SLICE_NS)
        # Partitions whose last sweep waits for the replicas of their log.
        self._being_swept: set[int] = set()
        replicas.verifier = TransactionVerifier(broker, replicas.broker_id, self, self._verifications, timers)
        self._run_periodically(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms", self._sweep_open
        )
        self._run_periodically("transaction.remove.expired.transaction.cleanup.interval.ms", self._expire)

    def stop(self) -> None:
        self.marker_sender.stop()
        self._verifications.stop()
        self._sweeps.stop()
        for action in (self._sweep_open, self._expire):
            self._timers.cancel((self, action.__name__))

    # Loading and unloading of shards

    def _make_machine(self, index: int) -> TransactionMachine:
        return TransactionMachine(partial(self._loaded, index), partial(self.marker_sender.drop, index))

    def _loaded(self, index: int, machine: TransactionMachine) -> None:
        """Sends the markers that the last coordinator has left.

        A decision that this broker has, but not all in-sync replicas have, may still be lost: the next leader
        might decide otherwise, so no partition may see it before it is committed.
        """
        prepared = machine.prepared()
        resume = partial(self._resume, index, machine, prepared)
        if prepared:
            self.shards.submit_to_partition(index, lambda _, __: Decision((), None, committed=resume)).then(
                lambda _: None, _log_sweep_failure
            )

    def apply(self, delta: Delta) -> None:
        """Called with a committed delta, after the replica manager has applied it."""
        if delta.brokers:
            self.marker_sender.disconnect_dead_brokers()
            self._verifications.disconnect_dead_brokers()
        self.marker_sender.metadata_changed(delta)

    # Requests of producers

    def initialise(self, request: InitRequest) -> Promise[Initialised]:
        """Returns the producer id and epoch of a transactional id."""
        result: Promise[Initialised] = Promise()
        self._initialise(result, request, None)
        return result

    def _initialise(
        self, result: Promise[Initialised], request: InitRequest, new_producer_id: int | None
    ) -> None:
        def decided(reply: Initialised | Prepared | NeedsProducerId) -> None:
            if isinstance(reply, Initialised):
                result.set(reply)
            elif isinstance(reply, Prepared):
                self._send_markers(reply)
                # The client retries; by then the previous transaction is aborted.
                result.fail(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
            else:
                self._with_producer_id(partial(self._initialise, result, request), result.fail)

        self.shards.submit(
            request.transactional_id,
            lambda machine, context: machine.initialise(context, request, new_producer_id),
        ).then(decided, result.fail)

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Promise[None]:
        return self.shards.submit(
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

        return self.shards.submit(transactional_id, decide)

    def end(self, transactional_id: str, request: EndRequest) -> Promise[Ended]:
        """Commits or aborts; returns the producer id and epoch of the next transaction."""
        result: Promise[Ended] = Promise()
        self._end_for(result, transactional_id, request, None)
        return result

    def _end_for(
        self,
        result: Promise[Ended],
        transactional_id: str,
        request: EndRequest,
        new_producer_id: int | None,
    ) -> None:
        def decided(reply: Prepared | Ended | NeedsProducerId) -> None:
            if isinstance(reply, Ended):
                result.set(reply)
            elif isinstance(reply, Prepared):
                # The decision is committed: the producer need not wait for all markers.  Those that can be
                # written at once are written first, so that its next transaction finds this one complete.
                self._send_markers(reply)
                result.set(Ended(*reply.producer))
            else:
                retry = partial(self._end_for, result, transactional_id, request)
                self._with_producer_id(retry, result.fail)

        self.shards.submit(
            transactional_id,
            lambda machine, context: machine.end(context, transactional_id, request, new_producer_id),
        ).then(decided, result.fail)

    def _send_markers(self, prepared: Prepared) -> None:
        self.marker_sender.start(self.shards.partition_for(prepared.transaction.transactional_id), prepared)

    def _with_producer_id(self, then: Callable[[int], None], fail: Callable[[BaseException], None]) -> None:
        self._replicas.producer_ids.next().then(then, fail)

    # Requests of administrators

    def matching(self, filters: Filter) -> Promise[list[Transaction]]:
        """Lists transactions of all coordinators on this broker; fails while one of them is loading."""
        result: Promise[list[Transaction]] = Promise()
        if self.shards.is_loading:
            result.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return result
        self._match_partitions(result, filters, self.shards.active(), [])
        return result

    def _match_partitions(
        self,
        result: Promise[list[Transaction]],
        filters: Filter,
        indexes: Iterator[int],
        transactions: list[Transaction],
    ) -> None:
        def decide(machine: TransactionMachine, context: Context) -> Decision[list[Transaction]]:
            return Decision((), list(filters.chosen(machine.transactions.values(), context.now_ms)))

        continue_with = partial(self._match_partitions, result, filters, indexes)
        for index in indexes:
            promise = self.shards.submit_to_partition(index, decide)
            if promise.done:
                promise.then(transactions.extend, lambda _: None)  # an unloaded shard lists nothing
                continue
            promise.then(
                lambda matched: continue_with([*transactions, *matched]),
                lambda _: continue_with(transactions),
            )
            return
        result.set(transactions)

    # Periodic tasks

    def _run_periodically(self, interval: str, action: Callable[[], None]) -> None:
        """Runs an action periodically, with the interval from the settings."""
        interval_ms: int = self._broker.settings[interval]

        def run() -> None:
            set_timer()
            action()

        def set_timer() -> None:
            deadline_ns = self._broker.clock.monotonic_ns() + interval_ms * NS_PER_MS
            self._timers.set((self, action.__name__), deadline_ns, run)

        set_timer()

    def _sweep_open(self) -> None:
        """Aborts timed-out transactions, and resumes prepared ones whose markers are not being sent."""
        for index in self.shards.active():
            if index not in self._being_swept:
                self._sweep_partition(index)

    def _sweep_partition(self, index: int) -> None:
        def decide(machine: TransactionMachine, context: Context) -> Decision[list[str]]:
            prepared = [
                pending
                for pending in machine.prepared()
                if pending.transaction.transactional_id not in self.marker_sender
            ]
            return Decision(
                (),
                machine.timed_out(context.now_ms),
                committed=partial(self._resume, index, machine, prepared),
            )

        def swept(timed_out: list[str]) -> None:
            self._being_swept.discard(index)
            self._sweeps.add(self._abort(timed_out))

        def failed(error: BaseException) -> None:
            self._being_swept.discard(index)
            _log_sweep_failure(error)

        self._being_swept.add(index)
        self.shards.submit_to_partition(index, decide).then(swept, failed)

    def _resume(self, index: int, machine: TransactionMachine, prepared_ends: list[Prepared]) -> None:
        """Sends markers of transactions whose requests timed out before the decision was committed."""
        for prepared in prepared_ends:
            transaction = prepared.transaction
            transactional_id = transaction.transactional_id
            if (
                machine.transactions.get(transactional_id) is transaction
                and transactional_id not in self.marker_sender
            ):
                self.marker_sender.start(index, prepared)

    def _abort(self, transactional_ids: list[str]) -> Iterator[None]:
        for transactional_id in transactional_ids:
            logger.info("aborting the timed-out transaction of %r", transactional_id)
            self._abort_one(transactional_id)
            yield

    def _abort_one(self, transactional_id: str) -> None:
        self.time_out(transactional_id, is_early=False).then(lambda _: None, _log_sweep_failure)

    def time_out(self, transactional_id: str, *, is_early: bool = True) -> Promise[bool]:
        """Abort a transaction as timed out, by default although its time is not over; returns whether one was
        open."""
        done: Promise[bool] = Promise()

        def decided(reply: Prepared | None) -> None:
            if reply is not None:
                self._send_markers(reply)
            done.set(reply is not None)

        self.shards.submit(
            transactional_id,
            lambda machine, context: machine.abort_timed_out(context, transactional_id, is_early=is_early),
        ).then(decided, done.fail)
        return done

    def _expire(self) -> None:
        def decide(machine: TransactionMachine, _: Context) -> Decision[list[str]]:
            return Decision((), list(machine.transactions))

        for index in self.shards.active():
            self.shards.submit_to_partition(index, decide).then(
                partial(self._expire_ids, index), _log_sweep_failure
            )

    def _expire_ids(self, index: int, transactional_ids: list[str]) -> None:
        self._sweeps.add(self._expire_in_steps(index, transactional_ids))

    def _expire_in_steps(self, index: int, transactional_ids: list[str]) -> Iterator[None]:
        for start in range(0, len(transactional_ids), IDS_PER_STEP):
            step = transactional_ids[start : start + IDS_PER_STEP]
            decide = partial(TransactionMachine.expire, transactional_ids=step)
            self.shards.submit_to_partition(index, decide).then(lambda _: None, _log_sweep_failure)
            yield


def _log_sweep_failure(error: BaseException) -> None:
    logger.warning("expired transactions are left for the next sweep: %s", error)
