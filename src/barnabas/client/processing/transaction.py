"""A transaction as a block: committed at its end, aborted if it raises."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.producer.producer import Producer
from barnabas.client.producer.transactions import State

logger = logging.getLogger(__name__)


class Transaction:
    """See `Producer.transaction`."""

    def __init__(self, producer: Producer[Any, Any], consumer: Consumer[Any, Any] | None) -> None:
        self._producer = producer
        self._consumer = consumer

    async def __aenter__(self) -> None:
        if self._producer.transaction_state is State.NEW:
            await self._producer.init_transactions()
        self._producer.begin_transaction()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                await self._commit()
            except KafkaError:
                await self._abort()
                raise
        else:
            await self._abort()

    async def _commit(self) -> None:
        if self._consumer is not None:
            offsets = self._consumer.consumed()
            if offsets:
                await self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())
        await self._producer.commit_transaction()

    async def _abort(self) -> None:
        """Nothing of it becomes visible; the consumer reads its records again."""
        if self._producer.transaction_state in (State.OPEN, State.FAILED):
            try:
                await self._producer.abort_transaction()
            except KafkaError as error:
                # The error that led here is raised; the coordinator aborts the transaction in the end.
                logger.warning("the transaction was not aborted: %s", error)
        if self._consumer is not None:
            self._consumer.seek_to_committed()
