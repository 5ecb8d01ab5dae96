"""Produce (api key 0), versions 3 to 13.

acks 0, 1 and all (-1); one batch of format v2 for each partition (KIP-98); idempotent duplicates get their
original offsets; errors of single records are reported (KIP-467, version 8); NOT_LEADER_OR_FOLLOWER has the
current leader (KIP-951, version 10); transactional writes are verified with their coordinator (KIP-890,
version 12 adds the partition to the transaction); topics by id (KIP-516, version 13).  An error in a request
with acks=0 closes the connection, as there is no response that could report it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.batch.check import only_batch
from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    MAGIC_POSITION,
    MAGIC_V2,
    SMALLEST_LENGTH,
    TRANSACTIONAL_FLAG,
    CorruptBatch,
    batch_size,
)
from barnabas.broker.network.request_context import Answer, RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.replicas.fast_produce import quick
from barnabas.broker.replicas.produce import FIRST_VERSION_WITH_TOPIC_IDS, Produce, Write
from barnabas.broker.replicas.produce_many import produce_in_parts
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.element_count import has_many_elements
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.primitives import record_view
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

__all__ = ["KEY", "handle", "quick", "refuse"]

KEY = 0
# Topics and partitions of a request that is served in one step.
MAX_AT_ONCE = 500


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> Answer[ProduceResponse | None] | Steps[ProduceResponse | None]:
    """Splits a request that names more partitions than can be written within a slice."""
    if context.is_large and has_many_elements(request, MAX_AT_ONCE):
        return produce_in_parts(request, lambda part: _validated(broker, part, context), refuse)
    return _validated(broker, request, context).start()


def _validated(broker: Broker, request: ProduceRequest, context: RequestContext) -> Produce:
    """Validates all writes; raises if the request is refused as a whole."""
    writes = _writes(broker, request, context)
    transactional = [write for write in writes if _is_transactional(write.records)]
    if transactional and not _may_write_as(broker, request.transactional_id, context):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    for write in writes:
        if not write.is_refused:
            _validate(broker, write, context)
    accepted = [write for write in transactional if not write.is_refused]
    return Produce(broker, request, context, writes, accepted)


def refuse(request: ProduceRequest, code: ErrorCode, text: str) -> ProduceResponse | None:
    """Every partition gets the error, with a message if there is one beyond the code's own text.

    A client with acks=0 expects no response: its connection is closed.
    """
    if request.acks == 0:
        return None
    message = None if text == ERRORS[code].text else text
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    ProduceResponse.PartitionProduceResponse(
                        index=partition.index, error_code=code, base_offset=-1, error_message=message
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _writes(broker: Broker, request: ProduceRequest, context: RequestContext) -> list[Write]:
    """Returns a write for each partition; if one is named more than once, the last counts."""
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    image = broker.image
    writes: dict[tuple[str | Uuid, int], Write] = {}
    for topic in request.topic_data:
        name, topic_id = topic.name, topic.topic_id
        if by_id:
            topic_image = image.topics.get(topic_id)
            name = "" if topic_image is None else topic_image.name
        for partition in topic.partition_data:
            write = Write(TopicPartition(name, partition.index), topic_id, record_view(partition.records))
            if by_id and not name:
                write.refuse(ErrorCode.UNKNOWN_TOPIC_ID)
            writes[topic_id if by_id else name, partition.index] = write
    return list(writes.values())


def _is_transactional(records: memoryview) -> bool:
    """Reads the first batch.  If it is invalid, the whole request fails with Apache Kafka's message."""
    try:
        size = batch_size(records, 0)
    except CorruptBatch:
        length = int.from_bytes(records[8:12], "big", signed=True)
        if length < SMALLEST_LENGTH:
            text = f"Record size {length} is less than the minimum record overhead ({SMALLEST_LENGTH})"
        else:
            magic = int.from_bytes(records[MAGIC_POSITION : MAGIC_POSITION + 1], "big", signed=True)
            text = f"Invalid magic found in record: {magic}"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, text) from None
    if size is None or not HEADER_SIZE <= size <= len(records) or records[MAGIC_POSITION] != MAGIC_V2:
        return False
    return bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_FLAG)


def _may_write_as(broker: Broker, transactional_id: str | None, context: RequestContext) -> bool:
    return transactional_id is not None and broker.authorizer.allows(
        context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id
    )


def _validate(broker: Broker, write: Write, context: RequestContext) -> None:
    """Validates everything that does not need the partition's log."""
    name = write.name
    if not broker.authorizer.allows(context, Operation.WRITE, Resource.TOPIC, name.topic):
        write.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    topic_image = broker.image.topic_named(name.topic)
    if topic_image is None or name.partition not in topic_image.partitions:
        write.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    try:
        only_batch(write.records, context.api_version)
    except KafkaError as error:
        write.refuse(error.code)
