"""What a decision is made of: the question's circumstances, the records and the reply.

What lives here: plain data, and the refusals inside a reply.  What may not: any decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.protocol.schema import Message

# Records of one batch, and so of a request whose records count together or not at all (Apache Kafka's limit).
MAX_RECORDS_PER_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Context:
    """When and how a request was asked, and where its first record would go."""

    now_ns: int
    next_offset: int
    version: int = 0
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Records to append, and the reply once they are committed.

    They go into one batch; only where `atomic` is False may they be spread over several.  `accepted` changes
    soft state; it is called with the offset of the last record (or, without records, of the last one in the
    log) when the log has taken them, and never if it has not.
    """

    records: Sequence[Message]
    reply: Message
    accepted: Callable[[int], None] | None = None
    atomic: bool = True

    def __post_init__(self) -> None:
        if self.atomic and len(self.records) > MAX_RECORDS_PER_BATCH:
            raise too_large()


def too_large() -> KafkaError:
    """A request whose records do not fit one batch: it has to be split by the one who asks."""
    return KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


@dataclass(frozen=True, slots=True)
class Fault:
    """A refusal that stands inside a reply.  The message may be absent, as Apache Kafka leaves it."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> Fault:
        """A text that only repeats the code's own is left out, as Apache Kafka does."""
        general = error.message == ERRORS[error.code].text
        return cls(error.code, None if general else error.message)

    @classmethod
    def general(cls, code: ErrorCode) -> Fault:
        """With the code's own text."""
        return cls(code, ERRORS[code].text)

    def __bool__(self) -> bool:
        return self.code is not ErrorCode.NONE


NO_FAULT = Fault()
