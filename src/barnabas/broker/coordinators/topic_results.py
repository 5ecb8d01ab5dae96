"""Results by topic and partition, shared by the handlers of the offset APIs.

Partitions that do not exist or are not authorized are refused by the handler; their errors are merged with
the coordinator's results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import Operation, Resource

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

# Errors of an append to the coordinator's log that the client did not cause.
_INTERNAL_ERRORS = frozenset(
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)
)
# Offsets that one request may commit or delete: a batch of the default max.message.bytes holds no more.
MAX_PARTITIONS = 10_000


class Topic(Protocol):
    """A topic of a request or of its response; each partition has a `partition_index`."""

    name: str
    partitions: list[Any]


Requested = TypeVar("Requested", bound=Topic)
Result = TypeVar("Result", bound=Topic)


class TopicResults(Generic[Requested, Result]):
    """The results of one request, collected from the handler and the coordinator."""

    def __init__(
        self, make: Callable[[Requested, list[int], ErrorCode], Result], key: Callable[[Any], object]
    ) -> None:
        self._make = make
        self._key = key
        self._refused: dict[object, Result] = {}

    def select(
        self, broker: Broker, context: RequestContext, topics: Iterable[Requested]
    ) -> Steps[list[Requested]]:
        """Returns the topics for the coordinator, each with its existing partitions; refuses the others."""
        accepted = []
        for topic in topics:
            yield None
            name = topic.name
            if not broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, name):
                self.refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                continue
            topic_image = broker.image.topic_named(name)
            if topic_image is None:
                self.refuse(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            partitions = topic_image.partitions
            missing: list[Any] = []
            existing: list[Any] = []
            for partition in topic.partitions:
                (existing if partition.partition_index in partitions else missing).append(partition)
                yield None
            if missing:
                self._add(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                topic.partitions = existing
            if topic.partitions:
                accepted.append(topic)
        return accepted

    def refuse(self, topic: Requested, code: ErrorCode) -> None:
        """Refuses all partitions of a topic."""
        self._add(topic, topic.partitions, code)

    def _add(self, topic: Requested, partitions: Iterable[Any], code: ErrorCode) -> None:
        result = self._make(topic, _indexes(partitions), code)
        previous = self._refused.setdefault(self._key(topic), result)
        if previous is not result:
            previous.partitions += result.partitions

    def refused(self) -> list[Result]:
        return list(self._refused.values())

    def failed(self, topics: Iterable[Requested], code: ErrorCode) -> list[Result]:
        """Returns the results if the coordinator refused the whole request."""
        return self.merged([self._make(topic, _indexes(topic.partitions), code) for topic in topics])

    def merged(self, from_coordinator: list[Result]) -> list[Result]:
        """Returns the refusals, then the coordinator's results; each topic occurs once."""
        if not self._refused:
            return from_coordinator
        for result in from_coordinator:
            previous = self._refused.setdefault(self._key(result), result)
            if previous is not result:
                previous.partitions += result.partitions
        return self.refused()


def _indexes(partitions: Iterable[Any]) -> list[int]:
    return [partition.partition_index for partition in partitions]


def check_count(topics: Iterable[Topic]) -> None:
    """Raises if the request cannot become one batch of the coordinator's log.

    Apache Kafka fails when it appends the batch, with the same code.
    """
    if sum(len(topic.partitions) for topic in topics) > MAX_PARTITIONS:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)


def client_error_code(error: KafkaError) -> ErrorCode:
    """Returns the code that the client gets for a coordinator's error."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if error.code in _INTERNAL_ERRORS else error.code
