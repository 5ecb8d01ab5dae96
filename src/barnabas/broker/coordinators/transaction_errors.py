"""Errors of the transaction APIs for older clients."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError


def error_for_version(version: int, first_with_fenced: int, error: BaseException) -> BaseException:
    """Returns INVALID_PRODUCER_EPOCH for PRODUCER_FENCED in versions before KIP-588."""
    if (
        version < first_with_fenced
        and isinstance(error, KafkaError)
        and error.code is ErrorCode.PRODUCER_FENCED
    ):
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    return error
