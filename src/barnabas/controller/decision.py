"""The input and output of a controller decision: request context, records, reply and errors (plain data)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.protocol.schema import Message

# The maximum number of records in a batch, and thus of an atomic request (Apache Kafka's limit).
MAX_RECORDS_PER_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Context:
    """The request context: time, version, principal and client id, and the offset of the first record."""

    now_ns: int
    next_offset: int
    version: int = 0
    principal: str = ""
    # Wall time, for what is written down with a time.
    wall_ms: int = 0
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Records to append, and the reply to send once they are committed.

    The records form one batch; only if `atomic` is False may they span several.  `accepted` updates soft
    state; it is called with the offset of the last record (or, without records, of the last one in the log)
    once they are appended, and never if the append fails.
    """

    records: Sequence[Message]
    reply: Message
    accepted: Callable[[int], None] | None = None
    atomic: bool = True
    # The quorum is upgraded to this kraft.version before the records are appended.
    kraft_version: int | None = None

    def __post_init__(self) -> None:
        if self.atomic and len(self.records) > MAX_RECORDS_PER_BATCH:
            raise too_large()


def too_large() -> KafkaError:
    """The error of a request whose records do not fit in one batch; the client must split it."""
    return KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error inside a reply.  The message may be null, as in Apache Kafka."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> ApiError:
        """The message is omitted if it is the default message of the code, as in Apache Kafka."""
        is_default = error.message == ERRORS[error.code].text
        return cls(error.code, None if is_default else error.message)

    @classmethod
    def default_for(cls, code: ErrorCode) -> ApiError:
        """With the default message of the code."""
        return cls(code, ERRORS[code].text)

    def __bool__(self) -> bool:
        return self.code is not ErrorCode.NONE


NO_ERROR = ApiError()
