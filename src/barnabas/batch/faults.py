"""The one exception of this room: bytes that are no sound batch."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError


class CorruptBatch(KafkaError):
    """Bytes that are no sound batch.  Its code is the answer that Apache Kafka gives a client for them."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(code, message)
