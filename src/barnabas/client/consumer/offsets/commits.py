"""Committed offsets: asking for them and storing them, for a member of a group or for nobody in particular.

What lives here: the two requests and what their errors mean.  What may not: when to commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.cluster import COORDINATOR_MOVED, Cluster, CoordinatorType
from barnabas.client.errors.groups import RebalanceInProgressError, StaleMemberEpochError
from barnabas.client.errors.kinds import RetriableError, error_for
from barnabas.client.errors.local import CommitFailedError
from barnabas.client.model import NO_EPOCH, OffsetAndMetadata, TopicPartition
from barnabas.client.offset_requests import fetched_offsets, offset_commit_request, offset_fetch_request
from barnabas.client.waiting import Deadline
from barnabas.protocol.messages.offset_commit import OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

T = TypeVar("T")
BATCHED_VERSION = 8
_GROUP = CoordinatorType.GROUP
_FALLEN_OUT = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH}
)


class Committer(NamedTuple):
    """Who commits, as the coordinator knows it."""

    generation_or_epoch: int = NO_EPOCH
    member_id: str = ""
    group_instance_id: str | None = None
    # Whether it is an epoch of the newer protocol (KIP-848), which moves on without a rebalance.
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
        """What is committed; None where nothing is.  Offsets of open transactions are waited for."""

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            link = await self._cluster.coordinator(self._group_id, _GROUP)
            key = OffsetFetchRequest.schema.key or 0
            batched = link.version_for(key) >= BATCHED_VERSION
            who = self._committer()
            request = offset_fetch_request(
                {self._group_id: partitions},
                True,
                batched=batched,
                member_id=who.member_id if who.is_epoch else None,
                member_epoch=who.generation_or_epoch if who.is_epoch else NO_EPOCH,
            )
            answer = await link.ask(request, OffsetFetchResponse)
            found = fetched_offsets(answer, None if batched else self._group_id)[self._group_id]
            if isinstance(found, KafkaError):
                raise found
            return {where: found[where] for where in found}

        return await self._until(deadline, "OffsetFetch", attempt)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """Store offsets; CommitFailedError if the group has gone on without this member."""
        if not offsets:
            return

        async def attempt() -> None:
            link = await self._cluster.coordinator(self._group_id, _GROUP)
            who = self._committer()
            request = offset_commit_request(
                self._group_id,
                offsets,
                generation_or_epoch=who.generation_or_epoch,
                member_id=who.member_id,
                group_instance_id=who.group_instance_id,
            )
            answer = await link.ask(request, OffsetCommitResponse)
            for topic in answer.topics:
                for one in topic.partitions:
                    self._judge(one.error_code, TopicPartition(topic.name, one.partition_index), who)

        await self._until(deadline, "OffsetCommit", attempt)

    def _judge(self, code: int, where: TopicPartition, who: Committer) -> None:
        if not code:
            return
        if code in _FALLEN_OUT:
            raise CommitFailedError(
                f"the commit of {where} is refused: the group has gone on without this member "
                f"({ErrorCode(code).name})"
            )
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise RebalanceInProgressError(
                f"the commit of {where} is refused while the group rebalances: poll"
            )
        raise error_for(code)

    async def _until(self, deadline: Deadline, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        async def watched() -> T:
            try:
                return await attempt()
            except RetriableError as error:
                if error.code in COORDINATOR_MOVED:
                    self._cluster.forget_coordinator(self._group_id, _GROUP)
                raise
            except StaleMemberEpochError as error:
                # The next heartbeat tells the newer epoch.
                raise _NotYet(error.message) from error

        return await self._cluster.retries.until(deadline, what, watched)


class _NotYet(RetriableError):
    """The member's epoch has moved on: the next heartbeat tells."""

    error_code = ErrorCode.STALE_MEMBER_EPOCH
