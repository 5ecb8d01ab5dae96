"""Fetch (api key 1), versions 4 to 18.

Record batches from an offset on, as slices of the segment files; long polls by max_wait_ms and min_bytes;
limits for the request and each partition, with the first batch always whole (KIP-74); isolation (version 4);
incremental sessions (KIP-227, version 7); leader epochs and fencing (KIP-320, version 9); reads from
followers (KIP-392, version 11); divergence (KIP-595, version 12); topics by id (KIP-516, version 13); broker
epochs of followers (KIP-903, version 15); current leaders with their addresses (KIP-951, version 16).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, chunks
from barnabas.broker.replicas.fetch import FIRST_VERSION_WITH_TOPIC_IDS, Fetch, Wanted
from barnabas.broker.replicas.partition_reads import PartitionData, Reader, error_data
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.replica.fetch_sessions import PartitionKey, Session
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 1
FIRST_VERSION_WITH_REPLICA_STATE = 15
# Read uncommitted and read committed.
ISOLATION_LEVELS = (0, 1)

Refused = list[tuple[PartitionKey, PartitionData]]


def handle(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> Answer[FetchResponse] | Steps[FetchResponse | None]:
    """Find the session, tell what may be read from what may not, and read."""
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no isolation {request.isolation_level}")
    session = broker.replicas.sessions.begin(request, context.api_version)
    if isinstance(session, ErrorCode):
        return FetchResponse(throttle_time_ms=0, error_code=session, responses=[])
    if session is not None:
        asked: Iterable[tuple[PartitionKey, FetchRequest.Partition]] = [
            (key, told.wanted) for key, told in session.partitions.items()
        ]
    else:
        asked = _named(request, context.api_version)
    reader = _reader(request, context.api_version)
    if context.is_large:
        return _in_steps(broker, request, context, reader, session, list(asked))
    wanted, refused = _sort(broker, context, reader, asked)
    return Fetch(broker, request, context, reader, session, wanted, refused).answer()


def _in_steps(
    broker: Broker,
    request: FetchRequest,
    context: RequestContext,
    reader: Reader,
    session: Session | None,
    asked: list[tuple[PartitionKey, FetchRequest.Partition]],
) -> Steps[FetchResponse | None]:
    """A request that may name very many partitions: most of them cannot exist, and are soon refused."""
    wanted: list[Wanted] = []
    refused: Refused = []
    for some in chunks(asked):
        more, not_these = _sort(broker, context, reader, some)
        wanted += more
        refused += not_these
        yield None
    answer = Fetch(broker, request, context, reader, session, wanted, refused).answer()
    if isinstance(answer, Promise):
        return (yield from awaited(answer))
    return answer


def refuse(request: FetchRequest, code: ErrorCode, text: str) -> FetchResponse:
    """A request that failed as a whole: told as such, and of every partition for old clients."""
    response = FetchResponse(throttle_time_ms=0, error_code=code, session_id=request.session_id, responses=[])
    for topic in request.topics:
        partitions = [error_data(one.partition, code, unread=True) for one in topic.partitions]
        response.responses.append(
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return response


def _named(request: FetchRequest, version: int) -> Iterable[tuple[PartitionKey, FetchRequest.Partition]]:
    """The partitions that a request names itself; of one that is named twice, the last counts."""
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    named: dict[PartitionKey, FetchRequest.Partition] = {}
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic
        for one in topic.partitions:
            named[key, one.partition] = one
    return named.items()


def _reader(request: FetchRequest, version: int) -> Reader:
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        state = request.replica_state
        return Reader(state.replica_id, state.replica_epoch, request.isolation_level, version)
    return Reader(request.replica_id, -1, request.isolation_level, version)


def _sort(
    broker: Broker,
    context: RequestContext,
    reader: Reader,
    asked: Iterable[tuple[PartitionKey, FetchRequest.Partition]],
) -> tuple[list[Wanted], Refused]:
    """What is to be read, and what is refused unread."""
    image = broker.image
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    allows = broker.authorizer.allows
    is_allowed = True
    if reader.is_follower:
        is_allowed = allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    wanted: list[Wanted] = []
    refused: Refused = []
    last: object = None
    topic = None
    for key, one in asked:
        if key[0] != last:
            last = key[0]
            topic = image.topics.get(last) if by_id else image.topic_named(last)  # type: ignore[arg-type]  # as by_id says
            if not reader.is_follower and (topic is not None or not by_id):
                name = last if topic is None else topic.name
                is_allowed = allows(context, Operation.READ, Resource.TOPIC, name)  # type: ignore[arg-type]  # a name
        if topic is None and by_id:
            refused.append((key, error_data(one.partition, ErrorCode.UNKNOWN_TOPIC_ID, unread=True)))
        elif not is_allowed:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append((key, error_data(one.partition, code, unread=True)))
        elif topic is None or one.partition not in topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append((key, error_data(one.partition, code, unread=True)))
        else:
            wanted.append(Wanted(key, topic.name, topic.id if by_id else ZERO_UUID, one))
    return wanted, refused
