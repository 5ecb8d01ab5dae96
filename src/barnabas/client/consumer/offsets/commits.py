"""Committed offsets: OffsetFetch and OffsetCommit, as a member of a group or without membership.

When to commit belongs in `committing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.cluster import Cluster, CoordinatorType
from barnabas.client.errors.base import RetriableError, error_for
from barnabas.client.errors.groups import RebalanceInProgressError, StaleMemberEpochError
from barnabas.client.errors.local import CommitFailedError
from barnabas.client.model import NO_EPOCH, OffsetAndMetadata, TopicPartition
from barnabas.client.offset_requests import fetched_offsets, offset_commit_request, offset_fetch_request
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.offset_commit import OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

T = TypeVar("T")
BATCHED_VERSION = 8
_GROUP = CoordinatorType.GROUP
_MEMBERSHIP_LOST = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH}
)


class Committer(NamedTuple):
    """The committing member as the coordinator knows it."""

    generation_or_epoch: int = NO_EPOCH
    member_id: str = ""
    group_instance_id: str | None = None
    # Whether it is a member epoch of the consumer protocol (KIP-848), which changes without a rebalance.
    is_epoch: bool = False


class Commits:
    """The committed offsets of one group."""

    def __init__(self, cluster: Cluster, group_id: str, committer: Callable[[], Committer]) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._committer = committer

    async def fetch(
        self, partitions: list[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return committed offsets, None where there are none; waits for open transactions."""

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            connection = await self._cluster.coordinator(self._group_id, _GROUP)
            key = OffsetFetchRequest.schema.key or 0
            batched = connection.version_for(key) >= BATCHED_VERSION
            committer = self._committer()
            request = offset_fetch_request(
                {self._group_id: partitions},
                True,
                batched=batched,
                member_id=committer.member_id if committer.is_epoch else None,
                member_epoch=committer.generation_or_epoch if committer.is_epoch else NO_EPOCH,
            )
            response = await connection.send(request, OffsetFetchResponse)
            committed = fetched_offsets(response, None if batched else self._group_id)[self._group_id]
            if isinstance(committed, KafkaError):
                raise committed
            return {partition: committed[partition] for partition in committed}

        return await self._until(deadline, "OffsetFetch", attempt)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """Commit offsets; raises CommitFailedError if this member is no longer in the group."""
        if not offsets:
            return

        async def attempt() -> None:
            connection = await self._cluster.coordinator(self._group_id, _GROUP)
            committer = self._committer()
            request = offset_commit_request(
                self._group_id,
                offsets,
                generation_or_epoch=committer.generation_or_epoch,
                member_id=committer.member_id,
                group_instance_id=committer.group_instance_id,
            )
            response = await connection.send(request, OffsetCommitResponse)
            for topic in response.topics:
                for partition in topic.partitions:
                    self._check(
                        partition.error_code, TopicPartition(topic.name, partition.partition_index), committer
                    )

        await self._until(deadline, "OffsetCommit", attempt)

    def _check(self, code: int, partition: TopicPartition, committer: Committer) -> None:
        if not code:
            return
        if code in _MEMBERSHIP_LOST:
            raise CommitFailedError(
                f"the commit of {partition} is refused: the group has rebalanced without this member "
                f"({ErrorCode(code).name})"
            )
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise RebalanceInProgressError(
                f"the commit of {partition} is refused while the group rebalances: poll"
            )
        raise error_for(code)

    async def _until(self, deadline: Deadline, operation: str, attempt: Callable[[], Awaitable[T]]) -> T:
        async def watched() -> T:
            try:
                return await attempt()
            except RetriableError as error:
                self._cluster.coordinator_failed(self._group_id, _GROUP, error)
                raise
            except StaleMemberEpochError as error:
                # The next heartbeat returns the current epoch.
                raise _NotYet(error.message) from error

        return await self._cluster.retries.until(deadline, operation, watched)


class _NotYet(RetriableError):
    """The member's epoch is stale: the next heartbeat updates it."""

    error_code = ErrorCode.STALE_MEMBER_EPOCH
