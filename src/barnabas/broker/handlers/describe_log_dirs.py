"""DescribeLogDirs (api key 35), versions 1 to 4.

Describes each directory of `log.dirs` with its partitions and their sizes (KIP-113), and from version 4 on
the size of its file system (KIP-827).  An offline directory gets KAFKA_STORAGE_ERROR.  A full one is
online and has no usable bytes, also where a quota or the reserve for metadata leaves some on the device.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 35

Result = DescribeLogDirsResponse.Result


def handle(
    broker: Broker, request: DescribeLogDirsRequest, context: RequestContext
) -> Steps[DescribeLogDirsResponse]:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeLogDirsResponse(throttle_time_ms=0, error_code=code, results=[])
    requested = None
    if request.topics is not None:
        requested = set()
        for topic in request.topics:
            for index in topic.partitions:
                requested.add(TopicPartition(topic.topic, index))
                yield None
    manager = broker.replicas.storage.manager
    results = []
    for path in list(manager.dirs.paths):
        results.append((yield from _describe(manager, path, requested)))
    return DescribeLogDirsResponse(throttle_time_ms=0, results=results)


def _describe(manager: LogManager, path: str, requested: set[TopicPartition] | None) -> Steps[Result]:
    shown = os.path.abspath(path)
    if path not in manager.live:
        return Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=shown, topics=[])
    topics: dict[str, DescribeLogDirsResponse.Topic] = {}
    for partition, log in list(manager.logs_in(path).items()):
        yield None
        if requested is not None and partition not in requested:
            continue
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = DescribeLogDirsResponse.Topic(
                name=partition.topic, partitions=[]
            )
        topic.partitions.append(_partition(manager, partition, log))
    try:
        total_bytes, usable_bytes = manager.disk.total_bytes(path), manager.disk.free_bytes(path)
    except OSError as error:
        manager.fail(path, error)
        return Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=shown, topics=[])
    return Result(
        error_code=0,
        log_dir=shown,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=0 if path in manager.full else usable_bytes,
    )


def _partition(manager: LogManager, partition: TopicPartition, log: Log) -> DescribeLogDirsResponse.Partition:
    """The lag of a future log is relative to its current log; that of a current log to the high watermark."""
    current = manager.logs.get(partition)
    is_future = manager.futures.get(partition) is log
    if current is None:
        lag = -1
    elif is_future:
        lag = current.end_offset - log.end_offset
    else:
        lag = max(current.high_watermark - log.end_offset, 0)
    return DescribeLogDirsResponse.Partition(
        partition_index=partition.partition,
        partition_size=log.size,
        offset_lag=lag,
        is_future_key=is_future,
    )
