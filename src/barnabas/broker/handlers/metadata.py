"""Metadata (key 3, versions 0-13): brokers, and the leaders and replicas of topics.

* No topics means all of them in version 0, none from version 1 on, where null means all.
* A topic that does not exist is created if `auto.create.topics.enable` and the request allow it; this
  response still has UNKNOWN_TOPIC_OR_PARTITION, in ZooKeeper mode LEADER_NOT_AVAILABLE.
* Version 0 leaves out unreachable replicas and returns REPLICA_NOT_AVAILABLE; below version 6 a leader
  without this listener is LEADER_NOT_AVAILABLE, from then on LISTENER_NOT_FOUND (KIP-302).
* Responses have topic ids from version 10 on, requests from version 12 on (KIP-516).
* Authorized operations: KIP-430; of the cluster up to version 10 only (DescribeCluster, KIP-700).
* Clients cannot reach the controller of a KRaft cluster: the response names any live broker instead.  In
  ZooKeeper mode it names the controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.topic_names import is_internal, is_valid
from barnabas.broker.metadata import cluster_view
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, each
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 3
FIRST_WITH_NULL_FOR_ALL = 1
FIRST_WITH_LISTENER_NOT_FOUND = 6
FIRST_WITH_OPERATIONS = 8
LAST_WITH_CLUSTER_OPERATIONS = 10
FIRST_WITH_IDS_IN_REQUESTS = 12
# One request creates at most this many topics.
MAX_AUTO_CREATED = 200

_TopicSteps = Steps[list[MetadataResponse.Topic]]


def handle(broker: Broker, request: MetadataRequest, context: RequestContext) -> Steps[MetadataResponse]:
    image, version = broker.image, context.api_version
    topics = yield from _topics(broker, request, context)
    if version >= FIRST_WITH_OPERATIONS and request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.name is not None:
                topic.topic_authorized_operations = broker.authorizer.authorized_operations(
                    context, Resource.TOPIC, topic.name
                )
            yield None
    response = MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=live.id, host=endpoint.host, port=endpoint.port, rack=live.rack)
            for live, endpoint in cluster_view.live_brokers(image, context.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_for_clients(),
        topics=topics,
    )
    if version <= LAST_WITH_CLUSTER_OPERATIONS and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker, context)
    return response


def refuse(request: MetadataRequest, code: ErrorCode, message: str) -> MetadataResponse:
    """Every requested topic gets the error."""
    return MetadataResponse(
        brokers=[],
        topics=[
            # Versions without null names in requests have none in responses either.
            MetadataResponse.Topic(
                error_code=code, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
            )
            for topic in request.topics or ()
        ],
        error_code=code,
    )


def cluster_operations(broker: Broker, context: RequestContext) -> int:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return broker.authorizer.authorized_operations(context, Resource.CLUSTER, CLUSTER_NAME)


def _topics(broker: Broker, request: MetadataRequest, context: RequestContext) -> _TopicSteps:
    image, requested = broker.image, request.topics
    if requested is None or (not requested and context.api_version < FIRST_WITH_NULL_FOR_ALL):
        return (yield from _all_topics(broker, context))
    by_id: dict[Uuid, None] = {}
    names: dict[str, None] = {}
    for named in requested:
        _validate(named, context.api_version)
        if named.topic_id != ZERO_UUID:
            by_id[named.topic_id] = None
        names[named.name or ""] = None
        yield None
    if not by_id:
        return (
            yield from _named_topics(broker, names, context, may_create=request.allow_auto_topic_creation)
        )
    unknown, results = [], []
    for topic_id in by_id:
        topic = image.topics.get(topic_id)
        if topic is None:
            unknown.append(_refused(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.name):
            results.append((yield from _described(image, topic, context)))
        else:
            results.append(_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
        yield None
    return [*unknown, *results]


def _validate(topic: MetadataRequest.Topic, version: int) -> None:
    if version < FIRST_WITH_IDS_IN_REQUESTS:
        if topic.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}"
            )


def _all_topics(broker: Broker, context: RequestContext) -> _TopicSteps:
    """Leaves out topics that the principal may not describe."""
    image = broker.image
    results = []
    for name in sorted(image.topic_ids):
        if broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name, quiet=True):
            results.append((yield from _described(image, image.topics[image.topic_ids[name]], context)))
        yield None
    return results


def _named_topics(
    broker: Broker, names: Iterable[str], context: RequestContext, *, may_create: bool
) -> _TopicSteps:
    image = broker.image
    results, missing, forbidden = [], [], []
    for name in names:
        yield None
        if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
            forbidden.append(name)
            continue
        topic = image.topic_named(name)
        if topic is not None:
            results.append((yield from _described(image, topic, context)))
        else:
            missing.append(name)
    if not (may_create and broker.settings["auto.create.topics.enable"]):
        results += yield from each(missing, lambda name: _refused(_missing_error(name), name))
    else:
        results += yield from _created_topics(broker, missing, context)
    results += yield from each(forbidden, lambda name: _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
    return results


def _created_topics(broker: Broker, names: list[str], context: RequestContext) -> _TopicSteps:
    """Creates missing topics, at most MAX_AUTO_CREATED of them per request."""
    allows = broker.authorizer.allows
    results = []
    creatable = []
    for name in names:
        if allows(context, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, quiet=True) or allows(
            context, Operation.CREATE, Resource.TOPIC, name
        ):
            creatable.append(name)
            code = broker.metadata.auto_created if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        results.append(_refused(code, name))
        yield None
    # The client retries the others: by then these exist.
    broker.auto_topics.create(creatable[:MAX_AUTO_CREATED], context)
    return results


def _missing_error(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _refused(code: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID) -> MetadataResponse.Topic:
    return MetadataResponse.Topic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=[],
    )


def _described(image: Image, topic: Topic, context: RequestContext) -> Steps[MetadataResponse.Topic]:
    partitions = yield from each(
        sorted(topic.partitions), lambda number: _partition(image, number, topic.partitions[number], context)
    )
    return MetadataResponse.Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
    )


def _partition(
    image: Image, number: int, partition: Partition, context: RequestContext
) -> MetadataResponse.Partition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    error = ErrorCode.NONE
    if context.api_version == 0:
        replicas = cluster_view.reachable(image, replicas, context.listener)
        isr = cluster_view.reachable(image, isr, context.listener)
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    leader = partition.leader
    if cluster_view.leader_endpoint(image, partition.leader, context.listener) is None:
        leader = cluster_view.NO_CONTROLLER
        error = cluster_view.no_leader_error(image, partition)
        if context.api_version < FIRST_WITH_LISTENER_NOT_FOUND:
            error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponse.Partition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=cluster_view.offline_replicas(image, partition, context.listener),
    )
