"""Producer id and epoch, by which brokers detect duplicates (KIP-98, KIP-360).

Sequence numbers belong in `sender`.
"""

from __future__ import annotations

import asyncio

from barnabas.client.cluster import Cluster
from barnabas.client.errors.base import RetriableError, check
from barnabas.client.producer.accumulator import NO_IDENTITY
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

MAX_EPOCH = 2**15 - 1


class Identity:
    """The id and epoch of an idempotent producer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.pair = NO_IDENTITY

    @property
    def is_known(self) -> bool:
        return self.pair != NO_IDENTITY

    def forget(self) -> None:
        self.pair = NO_IDENTITY

    def bump(self) -> None:
        """Move to the next epoch, which restarts sequence numbers; no other producer has this id, so it is
        local."""
        producer_id, epoch = self.pair
        self.pair = (producer_id, epoch + 1) if epoch + 1 < MAX_EPOCH else NO_IDENTITY

    async def obtain(self) -> None:
        """Obtain a producer id, with unlimited retries; raises errors that a retry cannot fix."""
        failures = 0
        while not self.is_known:
            try:
                await self._init_producer_id()
            except RetriableError:
                await asyncio.sleep(self._cluster.retries.pause_s(failures))
                failures += 1

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        response = await self._cluster.send_to_any(request, InitProducerIdResponse)
        check(response.error_code)
        self.pair = (response.producer_id, response.producer_epoch)
