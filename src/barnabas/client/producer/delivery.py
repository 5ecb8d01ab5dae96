"""The input and output types of a producer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barnabas.batch.engine.gather import Delivery as Delivery
from barnabas.client.producer.batches import Headers as Headers
from barnabas.client.producer.batches import OnDelivery as OnDelivery
from barnabas.client.producer.batches import RecordMetadata as RecordMetadata


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record on its way through interceptors and serializers."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
