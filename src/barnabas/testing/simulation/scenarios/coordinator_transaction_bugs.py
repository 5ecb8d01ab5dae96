"""Bugs planted in the transaction coordinator, each of which `coordinator-transactions` must find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.broker.coordinators.marker_sender import MarkerSender, _PendingMarkers
from barnabas.broker.coordinators.remote import verification_requests
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.shard import Shard, Store
from barnabas.coordinator.txn import ending
from barnabas.coordinator.txn import machine as txn_machine
from barnabas.coordinator.txn.ending import EndRequest
from barnabas.coordinator.txn.machine import Prepared, TransactionMachine
from barnabas.coordinator.txn.transaction import State, Transaction
from barnabas.runtime.planted import patched
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.registry import planted
from barnabas.testing.simulation.scenarios.coordinator_group_bugs import Hasty

TRANSACTIONS = "coordinator-transactions"


@planted("transactions: markers are sent before the decision is committed", scenario=TRANSACTIONS)
def markers_before_decision() -> Iterator[None]:
    """Partitions get a marker that another coordinator may never know of."""
    healthy = Shard.__init__

    def init(self: Shard[Any], machine: Any, store: Store, **options: Any) -> None:
        healthy(self, machine, Hasty(store), **options)

    with patched(Shard, "__init__", init):
        yield


@planted("transactions: one partition gets no marker", scenario=TRANSACTIONS)
def one_partition_without_marker() -> Iterator[None]:
    """A transaction completes although one of its partitions did not get its marker."""
    healthy = _PendingMarkers.__init__

    def init(self: _PendingMarkers, index: int, prepared: Prepared, coordinator_epoch: int) -> None:
        healthy(self, index, prepared, coordinator_epoch)
        if len(self.remaining) > 1:
            self.remaining.pop()

    with patched(_PendingMarkers, "__init__", init):
        yield


@planted("transactions: rejected markers are not retried", scenario=TRANSACTIONS)
def markers_not_retried() -> Iterator[None]:
    """A partition that was offline when the transaction ended never gets its marker."""

    def one_less(self: MarkerSender, one: _PendingMarkers) -> None:
        one.in_flight -= 1
        if not one.in_flight and not one.is_dropped:
            self._complete(one)

    with patched(MarkerSender, "_request_completed", one_less):
        yield


@planted("transactions: a restart forgets prepared transactions", scenario=TRANSACTIONS)
def restart_forgets_prepared() -> Iterator[None]:
    """A coordinator does not complete the transactions that were prepared before it was loaded."""
    with patched(TransactionMachine, "prepared", lambda self: []):
        yield


@planted("transactions: nothing times out", scenario=TRANSACTIONS)
def nothing_times_out() -> Iterator[None]:
    """The transaction of a crashed producer stays open."""
    with patched(Transaction, "is_timed_out", lambda self, now_ms: False):
        yield


@planted("transactions: a new producer does not end the old transaction", scenario=TRANSACTIONS)
def old_transaction_goes_on() -> Iterator[None]:
    """A producer begins while the transaction of its predecessor is open, and takes it over."""
    healthy = TransactionMachine.initialise

    def initialise(self: TransactionMachine, context: Context, request: Any, new_id: Any) -> Decision[Any]:
        known = self.transactions.get(request.transactional_id)
        if known is not None and not known.state.is_at_rest:
            state = State.COMPLETE_ABORT
            self.transactions[request.transactional_id] = replace(known, state=state)
        return healthy(self, context, request, new_id)

    with patched(TransactionMachine, "initialise", initialise):
        yield


@planted("transactions: an aborted one is committed", scenario=TRANSACTIONS)
def timed_out_is_committed() -> Iterator[None]:
    """A transaction that is aborted on a producer's behalf is committed instead."""

    def abort(transaction: Transaction, server_version: int, now_ms: int) -> Transaction:
        return transaction.prepare(commit=True, client_version=server_version, now_ms=now_ms)

    with patched(txn_machine, "abort", abort):
        yield


@planted("transactions: a fenced producer may continue", scenario=TRANSACTIONS)
def fenced_producer_goes_on() -> Iterator[None]:
    """A producer with an older epoch can add partitions to a transaction."""
    healthy = TransactionMachine.add_partitions

    def add(
        self: TransactionMachine,
        context: Context,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Decision[None]:
        known = self.get(transactional_id)
        return healthy(
            self,
            context,
            transactional_id,
            known.producer_id,
            known.producer_epoch,
            partitions,
            client_version,
        )

    with patched(TransactionMachine, "add_partitions", add):
        yield


@planted("transactions: a duplicated EndTxn ends the next one", scenario=TRANSACTIONS)
def repeated_end_ends_next() -> Iterator[None]:
    """EndTxn is accepted in any epoch: a duplicate ends the following transaction."""
    healthy = ending.end

    def end(transaction: Transaction, request: EndRequest, new_producer_id: int | None, now_ms: int) -> Any:
        if transaction.state is State.ONGOING:
            request = replace(
                request, producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
            )
        return healthy(transaction, request, new_producer_id, now_ms)

    with patched(txn_machine, "end", end):
        yield


@planted("transactions: complete before all markers are written", scenario=TRANSACTIONS)
def complete_too_early() -> Iterator[None]:
    """The coordinator lets the next transaction begin while a partition still has the last one open."""

    healthy = MarkerSender._send

    def send(self: MarkerSender, one: _PendingMarkers) -> Iterator[None]:
        yield from healthy(self, one)
        transaction = one.prepared.transaction
        self._shards.submit_to_partition(
            one.index, lambda machine, context: machine.complete(context, transaction)
        ).then(lambda _: None, lambda _: None)

    with patched(MarkerSender, "_send", send):
        yield


@planted("transactions: a lost request with markers counts as written", scenario=TRANSACTIONS)
def lost_markers_count() -> Iterator[None]:
    """A broker that did not answer is taken for one that has written its markers."""
    healthy = MarkerSender._written

    def written(self: MarkerSender, pending: _PendingMarkers, name: TopicPartition, code: ErrorCode) -> None:
        healthy(self, pending, name, ErrorCode.NONE if code is ErrorCode.NETWORK_EXCEPTION else code)

    with patched(MarkerSender, "_written", written):
        yield


@planted("transactions: a lost verification counts as verified", scenario=TRANSACTIONS)
def lost_verification_counts() -> Iterator[None]:
    """A partition accepts records of a transaction although its coordinator did not answer."""
    with patched(verification_requests, "_failure", lambda *_: ErrorCode.NONE):
        yield
