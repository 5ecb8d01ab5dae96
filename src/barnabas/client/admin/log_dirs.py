"""Log directories of brokers: what lies where, and moving replicas between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.kinds import ClientError, check, error_for
from barnabas.client.model import TopicPartition, TopicPartitionReplica, by_topic
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse


@dataclass(frozen=True, slots=True)
class ReplicaInLogDir:
    """A replica; `is_future` while it is being moved here from another directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A directory with its replicas; `error` if it is offline, sizes -1 where nobody tells."""

    path: str
    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInLogDir]
    total_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True)
class ReplicaLogDir:
    """Where a replica lies, and where it is being moved to."""

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
        """The directories of brokers by path, with all replicas or those of `partitions`."""
        topics = None
        if partitions is not None:
            topics = [
                DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        request = DescribeLogDirsRequest(topics=topics)
        asked = list(brokers)
        answers = await asyncio.gather(*(self._describe_broker(one, request, timeout_ms) for one in asked))
        return Outcomes(dict(zip(asked, answers, strict=True)))

    async def _describe_broker(
        self, broker: int, request: DescribeLogDirsRequest, timeout_ms: int | None
    ) -> Mapping[str, LogDirDescription] | KafkaError:
        try:
            answer = await self._ask_broker(broker, request, DescribeLogDirsResponse, timeout_ms)
            check(answer.error_code)
        except ClientError as error:
            return error
        return {one.log_dir: _directory(one) for one in answer.results}

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartitionReplica, ReplicaLogDir]:
        """Where single replicas lie."""
        asked = list(replicas)
        brokers = {one.broker_id for one in asked}
        partitions = {TopicPartition(one.topic, one.partition) for one in asked}
        described = await self.describe_log_dirs(brokers, partitions=partitions, timeout_ms=timeout_ms)
        found: dict[TopicPartitionReplica, ReplicaLogDir | KafkaError] = {}
        for one in asked:
            error = described.error_of(one.broker_id)
            found[one] = error if error is not None else _replica(one, described[one.broker_id])
        return Outcomes(found)

    async def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Move replicas to another directory of the same broker."""
        found: dict[TopicPartitionReplica, KafkaError | None] = {}
        for broker in sorted({one.broker_id for one in moves}):
            some = {one: path for one, path in moves.items() if one.broker_id == broker}
            try:
                answer = await self._ask_broker(
                    broker, _move_request(some), AlterReplicaLogDirsResponse, timeout_ms
                )
            except ClientError as error:
                found.update(dict.fromkeys(some, error))
                continue
            for topic in answer.results:
                for one in topic.partitions:
                    replica = TopicPartitionReplica(topic.topic_name, one.partition_index, broker)
                    found[replica] = outcome(one.error_code, None, None)
        return Outcomes(found)


def _directory(told: DescribeLogDirsResponse.Result) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, one.partition_index): ReplicaInLogDir(
            one.partition_size, one.offset_lag, one.is_future_key
        )
        for topic in told.topics
        for one in topic.partitions
    }
    error = error_for(told.error_code) if told.error_code else None
    return LogDirDescription(told.log_dir, error, replicas, told.total_bytes, told.usable_bytes)


def _replica(asked: TopicPartitionReplica, directories: Mapping[str, LogDirDescription]) -> ReplicaLogDir:
    current: tuple[str | None, int] = (None, -1)
    future: tuple[str | None, int] = (None, -1)
    for path, directory in directories.items():
        found = directory.replicas.get(TopicPartition(asked.topic, asked.partition))
        if found is not None and found.is_future:
            future = (path, found.offset_lag)
        elif found is not None:
            current = (path, found.offset_lag)
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
