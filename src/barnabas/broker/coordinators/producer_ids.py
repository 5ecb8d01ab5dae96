"""Producer ids: handed out one by one, from blocks that the controller gives (KIP-730).

What lives here: the block in use and the one after it.  What may not: who asks for an id, and transactions.
"""

from __future__ import annotations

import logging
from collections import deque

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.broker.context import ReplicaContext
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

logger = logging.getLogger(__name__)

VERSION = 0
# Ask for the next block when a tenth of this one is left.
PREFETCH_PART = 10
# Clients that may wait for a block at once.
WAITING_MAX = 100_000


class ProducerIds:
    """Gives every id once."""

    def __init__(self, broker: ReplicaContext, broker_id: int) -> None:
        self._broker = broker
        self._broker_id = broker_id
        self._block: range = range(0)
        self._size = 0
        self._next_block: range | None = None
        self._waiting: deque[Promise[int]] = deque()
        self._is_asked = False

    def next(self) -> Promise[int]:
        """An id that nobody else has; fails with COORDINATOR_LOAD_IN_PROGRESS if there is none to be had."""
        if not self._block and self._next_block is not None:
            self._use(self._next_block)
            self._next_block = None
        if self._block:
            producer_id = self._block[0]
            self._block = self._block[1:]
            if len(self._block) * PREFETCH_PART <= self._size and self._next_block is None:
                self._ask()
            return Promise.of(producer_id)
        promise: Promise[int] = Promise()
        if len(self._waiting) >= WAITING_MAX:
            promise.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return promise
        self._waiting.append(promise)
        self._ask()
        return promise

    def _use(self, block: range) -> None:
        self._block = block
        self._size = len(block)

    def _ask(self) -> None:
        if self._is_asked:
            return
        self._is_asked = True
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker.broker_epoch
        )
        self._broker.metadata.ask(request, VERSION, OWN_PRINCIPAL).then(self._answered, self._failed)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, AllocateProducerIdsResponse), "it is answered by its response"
        self._is_asked = False
        if response.error_code:
            self._failed(KafkaError(ErrorCode(response.error_code)))
            return
        block = range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
        if self._block:
            self._next_block = block
        else:
            self._use(block)
        waiting, self._waiting = self._waiting, deque()
        for promise in waiting:
            self.next().then(promise.set, promise.fail)

    def _failed(self, error: BaseException) -> None:
        """Those who wait are told to try again; the next one who comes asks anew."""
        self._is_asked = False
        logger.warning("no producer ids from the controller: %s", error)
        waiting, self._waiting = self._waiting, deque()
        for promise in waiting:
            promise.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
