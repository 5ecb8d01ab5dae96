"""User-defined interceptors: called before a record is sent, and when its outcome is known."""

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
    """Return the interceptors; classes are instantiated, and `configure(settings)` is called if defined."""
    made = []
    for value in given:
        if isinstance(value, str):
            raise ConfigError(
                f"Invalid value {value} for configuration interceptor.classes",
                allowed="Python objects or classes; Java's cannot run here",
            )
        built = value() if isinstance(value, type) else value
        if hasattr(built, "configure"):
            built.configure(settings)
        made.append(built)
    return made


class ProducerInterceptors:
    """Run in order; one that raises is logged and skipped, as in Apache Kafka."""

    def __init__(self, chain: list[Any]) -> None:
        self._chain = chain

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._chain:
            if not hasattr(interceptor, "on_send"):
                continue
            try:
                record = interceptor.on_send(record)
            except Exception:
                logger.exception("the interceptor %r failed in on_send", interceptor)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        for interceptor in self._chain:
            if not hasattr(interceptor, "on_acknowledgement"):
                continue
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                logger.exception("the interceptor %r failed in on_acknowledgement", interceptor)

    def close(self) -> None:
        for interceptor in self._chain:
            if hasattr(interceptor, "close"):
                interceptor.close()
