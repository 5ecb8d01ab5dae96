"""DeleteRecords (api key 21), versions 0 to 2.

Deletes all records before an offset on every replica (KIP-107); -1 means the high watermark.  The response is
sent when all live replicas have moved their log start offset, and has the new low watermark.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import is_internal
from barnabas.base.units import NS_PER_MS
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, each
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.replica.purgatory import DelayedOperation
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 21
UNKNOWN_LOW_WATERMARK = -1

Result = DeleteRecordsResponse.PartitionResult


class Deletion:
    """A deletion in one partition that is in progress."""

    __slots__ = ("hosted", "result", "target_offset")

    def __init__(self, hosted: Hosted, result: Result, target_offset: int) -> None:
        self.hosted = hosted
        self.result = result
        self.target_offset = target_offset

    def is_done(self) -> bool:
        """Whether all replicas have deleted the records, or this broker no longer leads the partition."""
        hosted = self.hosted
        if hosted.log is None or not hosted.is_leader:
            is_offline = hosted.is_offline
            code = ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._refuse(code)
            return True
        self.result.low_watermark = hosted.low_watermark
        return self.result.low_watermark >= self.target_offset

    def expire(self) -> None:
        self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def _refuse(self, code: ErrorCode) -> None:
        self.result.error_code = code
        self.result.low_watermark = UNKNOWN_LOW_WATERMARK


def handle(
    broker: Broker, request: DeleteRecordsRequest, context: RequestContext
) -> Steps[DeleteRecordsResponse]:
    """If a partition is named more than once, the last offset counts."""
    requested: dict[str, dict[int, DeleteRecordsRequest.Partition]] = {}
    for topic in request.topics:
        by_index = requested.setdefault(topic.name, {})
        for partition in topic.partitions:
            by_index[partition.partition_index] = partition
            yield None
    response = DeleteRecordsResponse(throttle_time_ms=0, topics=[])
    pending: list[Deletion] = []
    for name, by_index in requested.items():
        results = yield from each(by_index.values(), partial(_delete, broker, context, name, pending))
        response.topics.append(DeleteRecordsResponse.TopicResult(name=name, partitions=results))
    pending = [deletion for deletion in pending if not deletion.is_done()]
    if not pending:
        return response
    return (yield from awaited(_wait(broker.replicas, context, pending, response, request.timeout_ms)))


def refuse(request: DeleteRecordsRequest, code: ErrorCode, text: str) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            DeleteRecordsResponse.TopicResult(
                name=topic.name,
                partitions=[_error(partition.partition_index, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _error(index: int, code: ErrorCode) -> Result:
    return Result(partition_index=index, low_watermark=UNKNOWN_LOW_WATERMARK, error_code=code)


def _delete(
    broker: Broker,
    context: RequestContext,
    topic: str,
    pending: list[Deletion],
    partition: DeleteRecordsRequest.Partition,
) -> Result:
    index = partition.partition_index
    if not broker.authorizer.allows(context, Operation.DELETE, Resource.TOPIC, topic):
        return _error(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    known = broker.image.topic_named(topic)
    if known is None or index not in known.partitions:
        return _error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if is_internal(topic):
        return _error(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        hosted = broker.replicas.find(topic, index)
        target_offset = broker.replicas.delete_records(hosted, partition.offset)
    except KafkaError as error:
        return _error(index, error.code)
    result = Result(partition_index=index, low_watermark=hosted.low_watermark, error_code=0)
    pending.append(Deletion(hosted, result, target_offset))
    return result


def _wait(
    replicas: ReplicaManager,
    context: RequestContext,
    pending: list[Deletion],
    response: DeleteRecordsResponse,
    timeout_ms: int,
) -> Promise[DeleteRecordsResponse]:
    operation = DelayedDeleteRecords(pending, response)
    deadline_ns = replicas.now_ns() + max(timeout_ms, 0) * NS_PER_MS
    replicas.purgatory.wait(operation, _partitions(pending), deadline_ns)
    context.on_disconnect = partial(replicas.purgatory.forget, operation)
    return operation.promise


def _partitions(pending: Iterable[Deletion]) -> list[Hosted]:
    return [deletion.hosted for deletion in pending]


class DelayedDeleteRecords(DelayedOperation):
    """Waits until every live replica has moved its log start."""

    __slots__ = ("_pending", "_response", "promise")

    def __init__(self, pending: list[Deletion], response: DeleteRecordsResponse) -> None:
        super().__init__()
        self.promise: Promise[DeleteRecordsResponse] = Promise()
        self._pending = pending
        self._response = response

    def try_complete(self) -> bool:
        self._pending = [deletion for deletion in self._pending if not deletion.is_done()]
        if self._pending:
            return False
        self.promise.set(self._response)
        return True

    def expire(self) -> None:
        for deletion in self._pending:
            deletion.expire()
        self.promise.set(self._response)

    def fail(self, error: BaseException) -> None:
        if not self.promise.done:
            self.promise.fail(error)
