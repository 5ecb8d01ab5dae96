"""The fast path of most produce requests: one batch for one partition.

Decodes such a request and encodes its response without message objects; the layout is compiled from the
schema (protocol/single.py).  Other requests take the usual path (broker/handlers/produce.py), before anything
is done.  The append, the wait in the purgatory for replicas or a flush, and error responses are shared with
that path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.check import FIRST_PRODUCE_VERSION_WITH_ZSTD
from barnabas.batch.compression import Codec
from barnabas.batch.view import (
    CODEC_MASK,
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    attributes_of_only_batch,
)
from barnabas.broker.network.request_context import Deferred, Pieces, RequestContext
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.produce import FIRST_VERSION_WITH_TOPIC_IDS, Produce, Write
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.single import ReadSingle, WriteSingle, compile_single_reader, compile_single_writer
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

_ACKS = (1, -1)
# Bound once: access to an enum member costs as much as a small call.
_NO_ERROR, _WRITE, _TOPIC = ErrorCode.NONE, Operation.WRITE, Resource.TOPIC
_ZSTD = Codec.ZSTD.value
_UNUSUAL_ATTRIBUTES = ~CODEC_MASK
_NO_RECORDS = memoryview(b"")
_ANSWERED = ("name", "topic_id", "index", "base_offset", "log_append_time_ms", "log_start_offset")


class _Codecs(dict[int, tuple[ReadSingle, WriteSingle]]):
    """The request reader and response writer by version; compiled on first use."""

    def __missing__(self, version: int) -> tuple[ReadSingle, WriteSingle]:
        made = self[version] = (
            compile_single_reader(ProduceRequest.schema, version),
            compile_single_writer(ProduceResponse.schema, version, _ANSWERED),
        )
        return made


_CODECS = _Codecs()


def quick(
    broker: Broker, frame: memoryview, position: int, context: RequestContext
) -> Pieces | Deferred | None:
    """Serves a simple request, now or later; returns None for other requests, with nothing done."""
    version = context.api_version
    read, write = _CODECS[version]
    found = read(frame, position)
    if found is None:
        return None
    transactional_id, acks, timeout_ms, name, topic_id, index, records = found
    if records is None or acks not in _ACKS:
        return None
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic = broker.image.topics.get(topic_id)
        if topic is None:
            return None
        name = topic.name
    replicas = broker.replicas
    hosted = replicas.partitions.get((name, index))
    if hosted is None or not hosted.is_leader or hosted.is_internal:
        return None
    if version >= FIRST_VERSION_WITH_TOPIC_IDS and hosted.topic_id != topic_id:
        return None
    if not broker.authorizer.allows(context, _WRITE, _TOPIC, name):
        return None
    attributes = attributes_of_only_batch(records)
    if (
        attributes & _UNUSUAL_ATTRIBUTES
        or transactional_id is not None
        or version < FIRST_PRODUCE_VERSION_WITH_ZSTD
    ) and not _may_append(broker, context, hosted, records, attributes, transactional_id):
        return None
    try:
        result = replicas.append(hosted, records, acks)
    except KafkaError as error:
        refused = Write(hosted.name, topic_id, _NO_RECORDS)
        refused.hosted = hosted
        produce = Produce(broker, _request(refused, acks, timeout_ms), context, [refused])
        produce.refuse_append(refused, error)
        return [produce.response().encode(version)]
    if replicas.answer_to(hosted, acks, result.last_offset + 1) is not _NO_ERROR:
        appended = Write(hosted.name, topic_id, _NO_RECORDS)
        appended.appended(hosted, result)
        request = _request(appended, acks, timeout_ms)
        answer = Produce(broker, request, context, [appended]).acknowledge()
        if isinstance(answer, Promise):
            return Deferred(request, answer)
        return [answer.encode(version)]
    return [
        write(name, topic_id, index, result.first_offset, result.log_append_time_ms, result.log_start_offset)
    ]


def _may_append(
    broker: Broker,
    context: RequestContext,
    hosted: Hosted,
    records: memoryview,
    attributes: int,
    transactional_id: str | None,
) -> bool:
    """Whether this is one batch that needs no further checks before the append."""
    if attributes < 0 or attributes & CONTROL_FLAG:
        return False
    if context.api_version < FIRST_PRODUCE_VERSION_WITH_ZSTD and attributes & CODEC_MASK >= _ZSTD:
        return False
    is_transactional = attributes & TRANSACTIONAL_FLAG != 0
    if is_transactional != (transactional_id is not None):
        return False
    return transactional_id is None or _may_go_on(broker, context, hosted, records, transactional_id)


def _may_go_on(
    broker: Broker, context: RequestContext, hosted: Hosted, records: memoryview, transactional_id: str
) -> bool:
    """Whether the batch belongs to a transaction under way here.

    What begins one takes the usual way, on which the coordinator is asked (KIP-890).
    """
    if not broker.authorizer.allows(context, _WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        return False
    header = BatchHeader(0, records, 0)
    log = hosted.log
    return log is not None and log.producers.has_ongoing_transaction(
        header.producer_id, header.producer_epoch
    )


def _request(write: Write, acks: int, timeout_ms: int) -> ProduceRequest:
    """Returns the request as a message, for the rare responses that need one."""
    partition = ProduceRequest.PartitionProduceData(index=write.name.partition, records=None)
    topic = ProduceRequest.TopicProduceData(
        name=write.name.topic, topic_id=write.topic_id, partition_data=[partition]
    )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
