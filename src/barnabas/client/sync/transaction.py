"""A transaction as a block of a program without a loop."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.client.producer.transactions import State
from barnabas.client.sync.consumer import Consumer
from barnabas.client.sync.producer import Producer

logger = logging.getLogger(__name__)


class Transaction:
    """See `Producer.transaction`.  Producer and consumer have loops of their own, so each step is a call."""

    def __init__(self, producer: Producer[Any, Any], consumer: Consumer[Any, Any] | None) -> None:
        self._producer = producer
        self._consumer = consumer

    def __enter__(self) -> None:
        if self._producer.transaction_state is State.NEW:
            self._producer.init_transactions()
        self._producer.begin_transaction()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort()
            return
        try:
            if self._consumer is not None:
                offsets = self._consumer.consumed()
                if offsets:
                    group = self._consumer.group_metadata()
                    self._producer.send_offsets_to_transaction(offsets, group)
            self._producer.commit_transaction()
        except KafkaError:
            self._abort()
            raise

    def _abort(self) -> None:
        """Nothing of it becomes visible; the consumer reads its records again."""
        if self._producer.transaction_state in (State.OPEN, State.FAILED):
            try:
                self._producer.abort_transaction()
            except KafkaError as error:
                # The error that led here is raised; the coordinator aborts the transaction in the end.
                logger.warning("the transaction was not aborted: %s", error)
        if self._consumer is not None:
            self._consumer.seek_to_committed()
