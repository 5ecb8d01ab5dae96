"""The interface for the verification of transactional writes (KIP-890).

Produce validates, verifies, and appends when the result arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas.base.errors import ErrorCode
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

# The result for each partition; NONE: it is part of the transaction.
PartitionErrors = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class TransactionalWrite:
    """A transactional write of a producer to these partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    # From Produce 12 on the coordinator adds missing partitions (transaction.version 2).
    may_add: bool
    # From Produce 11 on the client knows TRANSACTION_ABORTABLE, and aborts.
    knows_abortable: bool = False


class TransactionVerifier(Protocol):
    """Verifies writes with the coordinators."""

    def verify(self, write: TransactionalWrite) -> Promise[PartitionErrors]: ...


class NoCoordinator:
    """A broker without coordinators: clients retry."""

    def verify(self, write: TransactionalWrite) -> Promise[PartitionErrors]:
        return Promise.of(dict.fromkeys(write.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
