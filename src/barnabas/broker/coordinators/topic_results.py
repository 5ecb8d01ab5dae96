"""What requests about offsets have in common: which of their partitions exist, and one answer made of two.

What lives here: sorting out what no coordinator needs to be asked about, and putting those refusals beside
the coordinator's results.  What may not: offsets.
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

# What a coordinator's log refuses a batch for is no fault of the one who commits.
_FAULTS_OF_OURS = frozenset(
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)
)
# Offsets that one request may commit or delete: a batch of max.message.bytes as it is by default has no more.
MAX_PARTITIONS = 10_000


class Topic(Protocol):
    """A topic of a request or of its response; each partition has a `partition_index`."""

    name: str
    partitions: list[Any]


Asked = TypeVar("Asked", bound=Topic)
Result = TypeVar("Result", bound=Topic)


class TopicResults(Generic[Asked, Result]):
    """The results of one request, gathered from here and from the coordinator."""

    def __init__(
        self, make: Callable[[Asked, list[int], ErrorCode], Result], key: Callable[[Any], object]
    ) -> None:
        self._make = make
        self._key = key
        self._refused: dict[object, Result] = {}

    def select(self, broker: Broker, context: RequestContext, topics: Iterable[Asked]) -> Steps[list[Asked]]:
        """The topics to ask the coordinator about, each with its partitions that exist."""
        kept = []
        for topic in topics:
            yield None
            name = topic.name
            if not broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, name):
                self.refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                continue
            known = broker.image.topic_named(name)
            if known is None:
                self.refuse(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            partitions = known.partitions
            missing: list[Any] = []
            found: list[Any] = []
            for one in topic.partitions:
                (found if one.partition_index in partitions else missing).append(one)
                yield None
            if missing:
                self._add(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                topic.partitions = found
            if topic.partitions:
                kept.append(topic)
        return kept

    def refuse(self, topic: Asked, code: ErrorCode) -> None:
        """All partitions of a topic."""
        self._add(topic, topic.partitions, code)

    def _add(self, topic: Asked, partitions: Iterable[Any], code: ErrorCode) -> None:
        result = self._make(topic, [one.partition_index for one in partitions], code)
        known = self._refused.setdefault(self._key(topic), result)
        if known is not result:
            known.partitions += result.partitions

    def refused(self) -> list[Result]:
        return list(self._refused.values())

    def failed(self, topics: Iterable[Asked], code: ErrorCode) -> list[Result]:
        """When the coordinator refused all of them."""
        return self.merged(
            [self._make(one, [each.partition_index for each in one.partitions], code) for one in topics]
        )

    def merged(self, answered: list[Result]) -> list[Result]:
        """Refusals come first; a topic that has both is told once."""
        if not self._refused:
            return answered
        for result in answered:
            known = self._refused.setdefault(self._key(result), result)
            if known is not result:
                known.partitions += result.partitions
        return self.refused()


def check_count(topics: Iterable[Topic]) -> None:
    """Refuse what could not become one batch of the coordinator's log, before anybody looks at it.

    Apache Kafka refuses it when it is written, for its size and with the same code.
    """
    if sum(len(topic.partitions) for topic in topics) > MAX_PARTITIONS:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)


def client_error_code(error: KafkaError) -> ErrorCode:
    """The code that a client hears for a coordinator's error."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if error.code in _FAULTS_OF_OURS else error.code
