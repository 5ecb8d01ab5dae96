"""The exception of this package: bytes that are not a valid batch."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError


class CorruptBatch(KafkaError):
    """Bytes that are not a valid batch.  The code is the one that Apache Kafka returns to a client for
    them."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(code, message)
