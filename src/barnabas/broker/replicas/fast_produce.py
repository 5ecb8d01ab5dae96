"""The short way of most produce requests: one batch for one partition that has no followers to wait for.

What lives here: reading such a request and writing its answer without making a message of either.  What may
not: any rule of its own.  Whatever is not that simple goes the usual way (handlers/produce.py), before
anything has happened; a refused append is answered by the same code as there.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from barnabas.base.errors import KafkaError
from barnabas.base.ids import Uuid
from barnabas.broker.network.request_context import Pieces, RequestContext
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.produce import FIRST_VERSION_WITH_TOPIC_IDS, Produce, Write
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_WITH_ZSTD = 7
# Shorter than the smallest length that takes two bytes as a varint.
SHORT_NAME = 126
_ACKS = (1, -1)
_ZSTD, _CODEC_BITS, _TRANSACTIONAL, _TRANSACTIONAL_OR_CONTROL = 4, 7, 0x10, 0x30
_UUID_SIZE = 16
_HEADER_SIZE = 61

# Up to version 8: transactional id (null), acks, time-out, number of topics, length of the name ...
_START = struct.Struct(">hhiih")
# ... number of partitions, index, size of the records; of the batch its length, magic and attributes.
_PARTITION = struct.Struct(">iii8xi4xb4xh")
_PARTITION_SIZE = 12
# From version 9 on: the same with lengths as varints, one more than they count, of one byte here.
_FLEXIBLE_START = struct.Struct(">bhibB")
_START_BY_ID = struct.Struct(">bhib16sbi")
_FLEXIBLE_PARTITION = struct.Struct(">bi")
_BATCH = struct.Struct(">8xi4xb4xh")
_END = b"\0\0\0"  # no tagged fields: of the partition, of the topic, of the request

# Number of partitions, index, error, base offset, append time, (log start,) (no record errors, no message,)
# throttle time.
_ANSWER_V3 = struct.Struct(">iihqqi")
_ANSWER_V5 = struct.Struct(">iihqqqi")
_ANSWER_V8 = struct.Struct(">iihqqqihi")
_FLEXIBLE_ANSWER = struct.Struct(">bihqqqbbbbib")


def quick(broker: Broker, frame: memoryview, position: int, context: RequestContext) -> Pieces | None:
    """Answer a request of the simple shape; None: it is none, and nothing has happened."""
    version = context.api_version
    try:
        if version < FIRST_FLEXIBLE_VERSION:
            return _old(broker, frame, position, context, version)
        if version < FIRST_VERSION_WITH_TOPIC_IDS:
            return _flexible(broker, frame, position, context, version)
        return _by_id(broker, frame, position, context, version)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None  # cut off or malformed: the usual way says so


def _old(
    broker: Broker, frame: memoryview, position: int, context: RequestContext, version: int
) -> Pieces | None:
    transactional, acks, _, topics, size = _START.unpack_from(frame, position)
    start = position + 14
    end = start + size
    if transactional != -1 or topics != 1 or size <= 0:
        return None
    partitions, index, length, batch_length, magic, attributes = _PARTITION.unpack_from(frame, end)
    records = end + _PARTITION_SIZE
    if (
        partitions != 1
        or records + length != len(frame)
        or batch_length + 12 != length
        or magic != 2
        or attributes & _TRANSACTIONAL_OR_CONTROL
        or (attributes & _CODEC_BITS == _ZSTD and version < FIRST_VERSION_WITH_ZSTD)
    ):
        return None
    name = str(frame[start:end], "utf-8")
    replicas = broker.replicas
    hosted = replicas.partitions.get((name, index))
    if hosted is None or not hosted.is_simple or not _may_write(broker, context, name, acks):
        return None
    try:
        result = replicas.append_simply(hosted, frame[records:])
    except KafkaError as error:
        return _refusal(broker, context, hosted, error)
    if version >= 8:
        tail = _ANSWER_V8.pack(
            1, index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset, 0, -1, 0
        )
    elif version >= 5:
        tail = _ANSWER_V5.pack(
            1, index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset, 0
        )
    else:
        tail = _ANSWER_V3.pack(1, index, 0, result.first_offset, result.log_append_time_ms, 0)
    return [b"".join((b"\0\0\0\1", frame[start - 2 : end], tail))]


def _flexible(
    broker: Broker, frame: memoryview, position: int, context: RequestContext, version: int
) -> Pieces | None:
    transactional = frame[position]
    position += max(0, transactional - 1)
    _, acks, _, topics, size_plus_one = _FLEXIBLE_START.unpack_from(frame, position)
    if topics != 2 or not 2 <= size_plus_one <= SHORT_NAME:
        return None
    start = position + 9
    end = start + size_plus_one - 1
    partitions, index = _FLEXIBLE_PARTITION.unpack_from(frame, end)
    if partitions != 2:
        return None
    records = _records_at(frame, end + 5, _TRANSACTIONAL if transactional else 0)
    if records < 0:
        return None
    name = str(frame[start:end], "utf-8")
    hosted = broker.replicas.partitions.get((name, index))
    if hosted is None or not hosted.is_simple or not _may_write(broker, context, name, acks):
        return None
    if transactional and not _may_write_as(broker, context, frame, position, transactional):
        return None
    return _append_flexible(
        broker, frame, context, hosted, records, frame[start - 1 : end], in_transaction=transactional > 0
    )


def _by_id(
    broker: Broker, frame: memoryview, position: int, context: RequestContext, version: int
) -> Pieces | None:
    transactional = frame[position]
    position += max(0, transactional - 1)
    _, acks, _, topics, topic_id, partitions, index = _START_BY_ID.unpack_from(frame, position)
    if topics != 2 or partitions != 2:
        return None
    records = _records_at(frame, position + 8 + _UUID_SIZE + 5, _TRANSACTIONAL if transactional else 0)
    if records < 0:
        return None
    topic = broker.image.topics.get(Uuid(topic_id))
    hosted = None if topic is None else broker.replicas.partitions.get((topic.name, index))
    if hosted is None or not hosted.is_simple or hosted.topic_id != topic_id:
        return None
    if not _may_write(broker, context, hosted.topic, acks):
        return None
    if transactional and not _may_write_as(broker, context, frame, position, transactional):
        return None
    return _append_flexible(
        broker, frame, context, hosted, records, topic_id, in_transaction=transactional > 0
    )


def _records_at(frame: memoryview, position: int, flags: int) -> int:
    """Where the records begin whose size stands at `position`; -1 unless they are one batch so flagged."""
    byte = frame[position]
    length = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        position += 1
        byte = frame[position]
        length |= (byte & 0x7F) << shift
        shift += 7
        if shift > 35:
            return -1
    start = position + 1
    length -= 1
    if length < _HEADER_SIZE or start + length + 3 != len(frame) or frame[start + length :] != _END:
        return -1
    batch_length, magic, attributes = _BATCH.unpack_from(frame, start)
    if batch_length + 12 != length or magic != 2 or attributes & _TRANSACTIONAL_OR_CONTROL != flags:
        return -1
    return start


def _may_write(broker: Broker, context: RequestContext, topic: str, acks: int) -> bool:
    return acks in _ACKS and broker.authorizer.allows(context, Operation.WRITE, Resource.TOPIC, topic)


def _may_write_as(
    broker: Broker, context: RequestContext, frame: memoryview, position: int, size_plus_one: int
) -> bool:
    """`position` is where the transactional id ends."""
    if not 2 <= size_plus_one <= SHORT_NAME:
        return False
    name = str(frame[position + 2 - size_plus_one : position + 1], "utf-8")
    return broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)


def _append_flexible(
    broker: Broker,
    frame: memoryview,
    context: RequestContext,
    hosted: Hosted,
    records: int,
    topic: bytes | memoryview,
    *,
    in_transaction: bool,
) -> Pieces | None:
    try:
        if in_transaction:
            # What begins a transaction here takes the usual way, on which its coordinator is asked.
            result = broker.replicas.append_if_plain(hosted, frame[records:-3])
            if result is None:
                return None
        else:
            result = broker.replicas.append_simply(hosted, frame[records:-3])
    except KafkaError as error:
        return _refusal(broker, context, hosted, error)
    tail = _FLEXIBLE_ANSWER.pack(
        2,
        hosted.index,
        0,
        result.first_offset,
        result.log_append_time_ms,
        result.log_start_offset,
        1,
        0,
        0,
        0,
        0,
        0,
    )
    return [b"".join((b"\2", topic, tail))]


def _refusal(broker: Broker, context: RequestContext, hosted: Hosted, error: KafkaError) -> Pieces:
    write = Write(TopicPartition(hosted.topic, hosted.index), hosted.topic_id, memoryview(b""))
    write.hosted = hosted
    request = ProduceRequest(acks=1, timeout_ms=0, topic_data=[])
    produce = Produce(broker, request, context, [write])
    produce.refuse_append(write, error)
    return [produce.response().encode(context.api_version)]
