"""What older clients of transactions are told.

What lives here: the one error that came later than the APIs that give it.  What may not: anything else.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError


def error_for_version(version: int, first_with_fenced: int, error: BaseException) -> BaseException:
    """PRODUCER_FENCED came with KIP-588; before, a fenced producer heard INVALID_PRODUCER_EPOCH."""
    if (
        version < first_with_fenced
        and isinstance(error, KafkaError)
        and error.code is ErrorCode.PRODUCER_FENCED
    ):
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    return error
