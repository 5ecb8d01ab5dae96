"""Fetch (api key 1), versions 4 to 18.

Reads record batches from an offset on, as slices of the segment files.  Supports long polling by max_wait_ms
and min_bytes; limits for the request and each partition, where the first batch is always complete (KIP-74);
isolation levels (version 4);
incremental sessions (KIP-227, version 7); leader epochs and fencing (KIP-320, version 9); reads from
followers (KIP-392, version 11); divergence (KIP-595, version 12); topics by id (KIP-516, version 13); broker
epochs of followers (KIP-903, version 15); current leaders with their addresses (KIP-951, version 16).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, chunks
from barnabas.broker.replicas.fetch import FIRST_VERSION_WITH_TOPIC_IDS, Fetch, FollowerFetch, Refused, Wanted
from barnabas.broker.replicas.partition_reads import Reader, error_data
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


def handle(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> Answer[FetchResponse] | Steps[FetchResponse | None]:
    """Finds the session, authorizes the partitions, and reads."""
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown isolation level {request.isolation_level}")
    session = broker.replicas.sessions.begin(request, context.api_version)
    if isinstance(session, ErrorCode):
        return FetchResponse(throttle_time_ms=0, error_code=session, responses=[])
    reader = _reader(request, context.api_version)
    if session is not None and session.privileged and session.replica_id == reader.replica_id:
        look = partial(_authorize_news, broker, context, reader, session)
        return FollowerFetch(broker, request, context, reader, session, look).answer()
    if session is None:
        partitions = _named(request, context.api_version)
    else:
        partitions = [(key, cached.wanted) for key, cached in session.partitions.items()]
    if request.rack_id and broker.replicas.selects_by_rack and not reader.is_follower:
        reader.rack, reader.listener = request.rack_id, context.listener
    if context.is_large:
        return _in_steps(broker, request, context, reader, session, list(partitions))
    to_read, refused = _authorize(broker, context, reader, partitions)
    return Fetch(broker, request, context, reader, session, to_read, refused).answer()


def _in_steps(
    broker: Broker,
    request: FetchRequest,
    context: RequestContext,
    reader: Reader,
    session: Session | None,
    partitions: list[tuple[PartitionKey, FetchRequest.Partition]],
) -> Steps[FetchResponse | None]:
    """Serves a request that may name very many partitions; most cannot exist and are refused early."""
    to_read: list[Wanted] = []
    refused: Refused = []
    for chunk in chunks(partitions):
        chunk_to_read, chunk_refused = _authorize(broker, context, reader, chunk)
        to_read += chunk_to_read
        refused += chunk_refused
        yield None
    response = Fetch(broker, request, context, reader, session, to_read, refused).answer()
    if isinstance(response, Promise):
        return (yield from awaited(response))
    return response


def refuse(request: FetchRequest, code: ErrorCode, text: str) -> FetchResponse:
    """The request fails as a whole; for old clients every partition has the error too."""
    response = FetchResponse(throttle_time_ms=0, error_code=code, session_id=request.session_id, responses=[])
    for topic in request.topics:
        partitions = [error_data(partition.partition, code, unread=True) for partition in topic.partitions]
        response.responses.append(
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return response


def _named(request: FetchRequest, version: int) -> Iterable[tuple[PartitionKey, FetchRequest.Partition]]:
    """Returns the partitions of the request; if one is named more than once, the last entry counts."""
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    partitions: dict[PartitionKey, FetchRequest.Partition] = {}
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            partitions[key, partition.partition] = partition
    return partitions.items()


def _reader(request: FetchRequest, version: int) -> Reader:
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        state = request.replica_state
        return Reader(state.replica_id, state.replica_epoch, request.isolation_level, version)
    return Reader(request.replica_id, -1, request.isolation_level, version)


def _authorize_news(
    broker: Broker, context: RequestContext, reader: Reader, session: Session
) -> tuple[list[Wanted], Refused]:
    """Returns what a follower's session has to look at."""
    news = [(key, cached.wanted) for key, cached in session.news.items()]
    return _authorize(broker, context, reader, news)


def _authorize(
    broker: Broker,
    context: RequestContext,
    reader: Reader,
    partitions: Iterable[tuple[PartitionKey, FetchRequest.Partition]],
) -> tuple[list[Wanted], Refused]:
    """Returns the partitions to read, and the results of those that are refused."""
    image = broker.image
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    allows = broker.authorizer.allows
    is_allowed = True
    if reader.is_follower:
        is_allowed = allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    to_read: list[Wanted] = []
    refused: Refused = []
    last_topic: object = None
    topic = None
    for key, partition in partitions:
        name_or_id = key[0]
        if name_or_id != last_topic:
            last_topic = name_or_id
            if isinstance(name_or_id, str):
                name: str | None = name_or_id
                topic = image.topic_named(name_or_id)
            else:
                topic = image.topics.get(name_or_id)
                name = None if topic is None else topic.name
            if name is not None and not reader.is_follower:
                is_allowed = allows(context, Operation.READ, Resource.TOPIC, name)
        if topic is None and by_id:
            refused.append((key, error_data(partition.partition, ErrorCode.UNKNOWN_TOPIC_ID, unread=True)))
        elif not is_allowed:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append((key, error_data(partition.partition, code, unread=True)))
        elif topic is None or partition.partition not in topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append((key, error_data(partition.partition, code, unread=True)))
        else:
            to_read.append(Wanted(key, topic.name, topic.id if by_id else ZERO_UUID, partition))
    return to_read, refused
