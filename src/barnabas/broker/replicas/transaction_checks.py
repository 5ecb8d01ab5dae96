"""Asking a transaction's coordinator whether a produce belongs to it, before anything is written (KIP-890).

What lives here: the question, its answers, and the broker that has no coordinator to ask.  What may not:
transactions themselves.

Produce is cut in two here: it checks, asks, and appends when the answer has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas.base.errors import ErrorCode
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

# What a coordinator answers for each partition; NONE: it is part of the transaction.
Verdicts = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class TransactionalWrite:
    """A producer is about to write, as part of its transaction, to these partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    # From Produce 12 on the coordinator adds what it does not have yet (transaction.version 2).
    may_add: bool
    # From Produce 11 on the client knows TRANSACTION_ABORTABLE: abort, and go on.
    knows_abortable: bool = False


class TransactionVerifier(Protocol):
    """Who knows the coordinators."""

    def verify(self, write: TransactionalWrite) -> Promise[Verdicts]: ...


class NoCoordinator:
    """There is nobody to ask: a client that hears this tries again."""

    def verify(self, write: TransactionalWrite) -> Promise[Verdicts]:
        return Promise.of(dict.fromkeys(write.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
