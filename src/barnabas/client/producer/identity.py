"""Who a producer is to the brokers: its id and epoch, by which repeats are told apart (KIP-98, KIP-360).

What lives here: asking for them, and moving to the next epoch.  What may not: sequence numbers (sender) and
transactions.
"""

from __future__ import annotations

import asyncio

from barnabas.client.cluster import Cluster
from barnabas.client.errors.kinds import RetriableError, check
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
        """The next epoch starts sequence numbers anew.  Nobody else has this id, so nobody need be asked."""
        producer_id, epoch = self.pair
        self.pair = (producer_id, epoch + 1) if epoch + 1 < MAX_EPOCH else NO_IDENTITY

    async def obtain(self) -> None:
        """A fresh id, however long it takes; raises what no further attempt would change."""
        failures = 0
        while not self.is_known:
            try:
                await self._ask()
            except RetriableError:
                await asyncio.sleep(self._cluster.retries.pause_s(failures))
                failures += 1

    async def _ask(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        answer = await self._cluster.ask_any(request, InitProducerIdResponse)
        check(answer.error_code)
        self.pair = (answer.producer_id, answer.producer_epoch)
