"""A user's own code on the way of records: before they are sent, and when it is known what became of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.client.producer.delivery import ProducerRecord, RecordMetadata
from barnabas.config.errors import ConfigError
from barnabas.config.settings import Settings

logger = logging.getLogger(__name__)


def interceptors(given: Iterable[Any], settings: Settings) -> list[Any]:
    """Objects, or classes to make them of; `configure(settings)` is called if they have it."""
    made = []
    for one in given:
        if isinstance(one, str):
            raise ConfigError(
                f"Invalid value {one} for configuration interceptor.classes",
                allowed="Python objects or classes; Java's cannot run here",
            )
        built = one() if isinstance(one, type) else one
        if hasattr(built, "configure"):
            built.configure(settings)
        made.append(built)
    return made


class ProducerInterceptors:
    """They run in order; one that raises is told in the log and passed over, as in Apache Kafka."""

    def __init__(self, chain: list[Any]) -> None:
        self._chain = chain

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for one in self._chain:
            if not hasattr(one, "on_send"):
                continue
            try:
                record = one.on_send(record)
            except Exception:
                logger.exception("the interceptor %r failed in on_send", one)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        for one in self._chain:
            if not hasattr(one, "on_acknowledgement"):
                continue
            try:
                one.on_acknowledgement(metadata, error)
            except Exception:
                logger.exception("the interceptor %r failed in on_acknowledgement", one)

    def close(self) -> None:
        for one in self._chain:
            if hasattr(one, "close"):
                one.close()
