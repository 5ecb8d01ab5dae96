"""Metadata (key 3, versions 0-13): brokers, and the leaders and replicas of topics.

* No topics means all of them in version 0, none from version 1 on, where null means all.
* A topic that does not exist is made if `auto.create.topics.enable` and the request allow it; this answer
  still says UNKNOWN_TOPIC_OR_PARTITION, the next one has it.
* Version 0 leaves replicas out that cannot be reached and says REPLICA_NOT_AVAILABLE; below version 6 a
  leader without this listener is LEADER_NOT_AVAILABLE, from then on LISTENER_NOT_FOUND (KIP-302).
* Topic ids are answered from version 10 on and asked for from version 12 on (KIP-516).
* Authorized operations: KIP-430; of the cluster up to version 10 only (DescribeCluster, KIP-700).
* The controller of a KRaft cluster is not for clients: any live broker is named in its place.
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
FIRST_WITH_IDS_ASKED_FOR = 12
# One request has at most so many topics made.
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
            MetadataResponse.Broker(node_id=one.id, host=end.host, port=end.port, rack=one.rack)
            for one, end in cluster_view.live_brokers(image, context.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=cluster_view.shown_controller(image, broker.random),
        topics=topics,
    )
    if version <= LAST_WITH_CLUSTER_OPERATIONS and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker, context)
    return response


def refuse(request: MetadataRequest, code: ErrorCode, message: str) -> MetadataResponse:
    """Every topic that was asked for gets the error."""
    return MetadataResponse(
        brokers=[],
        topics=[
            # Versions that refuse a null name cannot answer one either.
            MetadataResponse.Topic(error_code=code, name=one.name or "", topic_id=one.topic_id, partitions=[])
            for one in request.topics or ()
        ],
        error_code=code,
    )


def cluster_operations(broker: Broker, context: RequestContext) -> int:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return broker.authorizer.authorized_operations(context, Resource.CLUSTER, CLUSTER_NAME)


def _topics(broker: Broker, request: MetadataRequest, context: RequestContext) -> _TopicSteps:
    image, asked = broker.image, request.topics
    if asked is None or (not asked and context.api_version < FIRST_WITH_NULL_FOR_ALL):
        return (yield from _all_topics(broker, context))
    by_id: dict[Uuid, None] = {}
    names: dict[str, None] = {}
    for one in asked:
        _check(one, context.api_version)
        if one.topic_id != ZERO_UUID:
            by_id[one.topic_id] = None
        names[one.name or ""] = None
        yield None
    if not by_id:
        return (
            yield from _named_topics(broker, names, context, may_create=request.allow_auto_topic_creation)
        )
    unknown, answers = [], []
    for topic_id in by_id:
        topic = image.topics.get(topic_id)
        if topic is None:
            unknown.append(_refused(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.name):
            answers.append((yield from _described(image, topic, context)))
        else:
            answers.append(_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
        yield None
    return [*unknown, *answers]


def _check(one: MetadataRequest.Topic, version: int) -> None:
    if version < FIRST_WITH_IDS_ASKED_FOR:
        if one.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if one.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}"
            )


def _all_topics(broker: Broker, context: RequestContext) -> _TopicSteps:
    """Those that this principal may not see are not there."""
    image = broker.image
    answers = []
    for name in sorted(image.topic_ids):
        if broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name, quiet=True):
            answers.append((yield from _described(image, image.topics[image.topic_ids[name]], context)))
        yield None
    return answers


def _named_topics(
    broker: Broker, names: Iterable[str], context: RequestContext, *, may_create: bool
) -> _TopicSteps:
    image = broker.image
    answers, missing, forbidden = [], [], []
    for name in names:
        yield None
        if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
            forbidden.append(name)
            continue
        topic = image.topic_named(name)
        if topic is not None:
            answers.append((yield from _described(image, topic, context)))
        else:
            missing.append(name)
    if not (may_create and broker.settings["auto.create.topics.enable"]):
        answers += yield from each(missing, lambda name: _refused(_why_missing(name), name))
    else:
        answers += yield from _created_topics(broker, missing, context)
    answers += yield from each(forbidden, lambda name: _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
    return answers


def _created_topics(broker: Broker, names: list[str], context: RequestContext) -> _TopicSteps:
    """Missing topics that come into being: so many of them at a time as are decided within a slice."""
    allows = broker.authorizer.allows
    answers = []
    creatable = []
    for name in names:
        if allows(context, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, quiet=True) or allows(
            context, Operation.CREATE, Resource.TOPIC, name
        ):
            creatable.append(name)
            code = _why_missing(name)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answers.append(_refused(code, name))
        yield None
    # Who asks for more asks again: these are there by then.
    broker.auto_topics.create(creatable[:MAX_AUTO_CREATED], context)
    return answers


def _why_missing(name: str) -> ErrorCode:
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
    if cluster_view.leader_endpoint(image, partition, context.listener) is None:
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
