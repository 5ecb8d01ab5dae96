"""Errors that no broker sends: the client itself raises them."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.base.errors import ErrorCode
from barnabas.client.errors.base import ClientError, RetriableError
from barnabas.client.errors.cluster import RequestTimedOutError
from barnabas.client.errors.data import MessageTooLargeError, OffsetOutOfRangeError
from barnabas.client.errors.groups import UnknownMemberIdError


class KafkaTimeoutError(RequestTimedOutError, TimeoutError):
    """Check that the cluster can be reached and is not overloaded, or allow more time."""


class NoBrokersError(KafkaTimeoutError, code=ErrorCode.BROKER_NOT_AVAILABLE):
    """Check `bootstrap.servers`, and that a broker listens there and advertises an address you can reach."""


class UndeliveredError(ClientError, code=ErrorCode.REQUEST_TIMED_OUT):
    """Await each delivery (or pass `on_delivery`) to learn which records failed, and send those again."""

    def __init__(self, message: str, count: int = 0, errors: Mapping[str, Exception] | None = None) -> None:
        super().__init__(message)
        # How many records, and the first error of each topic or partition.
        self.count = count
        self.errors = dict(errors or {})


class BufferExhaustedError(RetriableError, code=ErrorCode.REQUEST_TIMED_OUT):
    """Records arrive faster than they are sent: wait, raise `buffer.memory`, or send less."""


class RecordTooLargeError(MessageTooLargeError):
    """Send a smaller record, or raise `max.request.size` (and the topic's `max.message.bytes`)."""


class RecordRefusedError(ClientError, code=ErrorCode.INVALID_RECORD):
    """Correct the record, or the serializer, partitioner or interceptor that raised the error."""


class HandlerError(ClientError):
    """Correct the handler and start again, or give it `retries` and a topic for `dead_letters`."""


class NoOffsetForPartitionError(OffsetOutOfRangeError):
    """Commit or seek first, or set `auto.offset.reset` to earliest or latest."""


class CommitFailedError(UnknownMemberIdError):
    """The partitions went to other members: poll more often (`max.poll.interval.ms`, `max.poll.records`)."""


class RecordDeserializationError(ClientError, code=ErrorCode.INVALID_RECORD):
    """Correct the deserializer, or seek past the record."""


class ClosedError(RuntimeError):
    """The client is closed, or was not started: open a new one."""
