"""Allocates producer ids from blocks of the controller (KIP-730), with the next block prefetched."""

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
# Request the next block when a tenth of the current one is left.
PREFETCH_FRACTION = 10
# Requests that may wait for a block at the same time.
MAX_WAITING = 100_000


class ProducerIds:
    """Returns every id once."""

    def __init__(self, broker: ReplicaContext, broker_id: int) -> None:
        self._broker = broker
        self._broker_id = broker_id
        self._block: range = range(0)
        self._size = 0
        self._next_block: range | None = None
        self._waiting: deque[Promise[int]] = deque()
        self._is_requested = False

    def next(self) -> Promise[int]:
        """Returns a new producer id; fails with COORDINATOR_LOAD_IN_PROGRESS if there is none."""
        if not self._block and self._next_block is not None:
            self._use(self._next_block)
            self._next_block = None
        if self._block:
            producer_id = self._block[0]
            self._block = self._block[1:]
            if len(self._block) * PREFETCH_FRACTION <= self._size and self._next_block is None:
                self._request_block()
            return Promise.of(producer_id)
        promise: Promise[int] = Promise()
        if len(self._waiting) >= MAX_WAITING:
            promise.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return promise
        self._waiting.append(promise)
        self._request_block()
        return promise

    def _use(self, block: range) -> None:
        self._block = block
        self._size = len(block)

    def _request_block(self) -> None:
        if self._is_requested:
            return
        self._is_requested = True
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker.broker_epoch
        )
        self._broker.metadata.send_request(request, VERSION, OWN_PRINCIPAL).then(
            self._block_allocated, self._failed
        )

    def _block_allocated(self, response: Message) -> None:
        assert isinstance(response, AllocateProducerIdsResponse), "the controller's response"
        self._is_requested = False
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
        """Fails the waiting requests with a retriable error; the next request asks the controller again."""
        self._is_requested = False
        logger.warning("cannot allocate producer ids: %s", error)
        waiting, self._waiting = self._waiting, deque()
        for promise in waiting:
            promise.fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
