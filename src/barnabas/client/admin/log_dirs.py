"""Log directories of brokers: their contents, and moves of replicas between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.base import ClientError, check, error_for
from barnabas.client.model import TopicPartition, TopicPartitionReplica, by_topic
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse


@dataclass(frozen=True, slots=True)
class ReplicaInLogDir:
    """A replica; `is_future` while it is being moved to this directory from another."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A directory with its replicas; `error` if it is offline, sizes are -1 if the broker does not report
    them."""

    path: str
    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInLogDir]
    total_bytes: int
    usable_bytes: int

    @property
    def is_full(self) -> bool:
        """Whether it is online and takes no writes for lack of space."""
        return self.error is None and self.total_bytes > 0 and self.usable_bytes == 0


@dataclass(frozen=True, slots=True)
class ReplicaLogDir:
    """The directory of a replica, and the one it is being moved to."""

    current_path: str | None
    current_lag: int
    future_path: str | None
    future_lag: int


class LogDirCalls(AdminCalls):
    async def describe_log_dirs(
        self,
        brokers: Iterable[int],
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[int, Mapping[str, LogDirDescription]]:
        """Return the directories of brokers by path, with all replicas or those of `partitions`."""
        topics = None
        if partitions is not None:
            topics = [
                DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = DescribeLogDirsRequest(topics=topics)
        requested = list(brokers)
        responses = await asyncio.gather(
            *(self._describe_broker(broker, request, timeout_ms) for broker in requested)
        )
        return Outcomes(dict(zip(requested, responses, strict=True)))

    async def _describe_broker(
        self, broker: int, request: DescribeLogDirsRequest, timeout_ms: int | None
    ) -> Mapping[str, LogDirDescription] | KafkaError:
        try:
            response = await self._send_to_broker(broker, request, DescribeLogDirsResponse, timeout_ms)
            check(response.error_code)
        except ClientError as error:
            return error
        return {result.log_dir: _directory(result) for result in response.results}

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartitionReplica, ReplicaLogDir]:
        """Return the directories of single replicas."""
        requested = list(replicas)
        brokers = {replica.broker_id for replica in requested}
        partitions = {TopicPartition(replica.topic, replica.partition) for replica in requested}
        described = await self.describe_log_dirs(brokers, partitions=partitions, timeout_ms=timeout_ms)
        results: dict[TopicPartitionReplica, ReplicaLogDir | KafkaError] = {}
        for replica in requested:
            error = described.error_of(replica.broker_id)
            results[replica] = error if error is not None else _replica(replica, described[replica.broker_id])
        return Outcomes(results)

    async def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Move replicas to another directory of the same broker."""
        results: dict[TopicPartitionReplica, KafkaError | None] = {}
        for broker in sorted({move.broker_id for move in moves}):
            requested = {move: path for move, path in moves.items() if move.broker_id == broker}
            try:
                response = await self._send_to_broker(
                    broker, _move_request(requested), AlterReplicaLogDirsResponse, timeout_ms
                )
            except ClientError as error:
                results.update(dict.fromkeys(requested, error))
                continue
            for topic in response.results:
                for partition in topic.partitions:
                    replica = TopicPartitionReplica(topic.topic_name, partition.partition_index, broker)
                    results[replica] = outcome(partition.error_code, None, None)
        return Outcomes(results)


def _directory(result: DescribeLogDirsResponse.Result) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, partition.partition_index): ReplicaInLogDir(
            partition.partition_size, partition.offset_lag, partition.is_future_key
        )
        for topic in result.topics
        for partition in topic.partitions
    }
    error = error_for(result.error_code) if result.error_code else None
    return LogDirDescription(result.log_dir, error, replicas, result.total_bytes, result.usable_bytes)


def _replica(requested: TopicPartitionReplica, directories: Mapping[str, LogDirDescription]) -> ReplicaLogDir:
    current: tuple[str | None, int] = (None, -1)
    future: tuple[str | None, int] = (None, -1)
    for path, directory in directories.items():
        replica = directory.replicas.get(TopicPartition(requested.topic, requested.partition))
        if replica is not None and replica.is_future:
            future = (path, replica.offset_lag)
        elif replica is not None:
            current = (path, replica.offset_lag)
    return ReplicaLogDir(*current, *future)


def _move_request(moves: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in moves.items():
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                    for topic, numbers in by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
    )
