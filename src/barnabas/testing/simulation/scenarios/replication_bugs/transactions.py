"""Bugs of transactions over several brokers that `replication-transactions` must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.coordinators.marker_sender import _PendingMarkers
from barnabas.broker.replicas import partition_reads
from barnabas.coordinator.txn.machine import Prepared, TransactionMachine
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.runtime.planted import patched
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.registry import planted

SCENARIO = "replication-transactions"
WITHIN_SEEDS = 40

Plant = Callable[[], Iterator[None]]


def _planted(name: str, first_seed: int = 0) -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(
        f"replicated transactions: {name}",
        scenario=SCENARIO,
        within_seeds=WITHIN_SEEDS,
        first_seed=first_seed,
    )


@_planted("open transactions are read")
def open_transactions_read() -> Iterator[None]:
    """The last stable offset is the high watermark."""
    with patched(Log, "last_stable_offset", property(lambda self: self.high_watermark)):
        yield


@_planted("aborted transactions are not named")
def aborted_not_named() -> Iterator[None]:
    """A reader of committed transactions gets no list of the aborted ones."""
    healthy = partition_reads._read_log

    def read_log(*arguments: object) -> FetchResponse.PartitionData:
        data = healthy(*arguments)  # type: ignore[arg-type]
        if data.aborted_transactions:
            data.aborted_transactions = []
        return data

    with patched(partition_reads, "_read_log", read_log):
        yield


@_planted("one partition gets no marker")
def one_partition_without_marker() -> Iterator[None]:
    """A transaction completes although one of its partitions did not get its marker."""
    healthy = _PendingMarkers.__init__

    def init(self: _PendingMarkers, index: int, prepared: Prepared, coordinator_epoch: int) -> None:
        healthy(self, index, prepared, coordinator_epoch)
        if len(self.remaining) > 1:
            self.remaining.pop()

    with patched(_PendingMarkers, "__init__", init):
        yield


@_planted("a new coordinator forgets prepared transactions")
def prepared_forgotten() -> Iterator[None]:
    """A coordinator does not complete the transactions that were prepared on another broker."""
    with patched(TransactionMachine, "prepared", lambda self: []):
        yield
