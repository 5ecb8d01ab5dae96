"""Manual and automatic commits of a consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from barnabas.base.errors import KafkaError
from barnabas.client.consumer.base import ConsumerBase
from barnabas.client.consumer.offsets.commits import Commits
from barnabas.client.errors.groups import InvalidGroupIdError
from barnabas.client.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    as_partition,
    as_partitions,
)
from barnabas.client.retries import Deadline

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]


class Committing(ConsumerBase):
    async def commit(self, offsets: Offsets | None = None, *, timeout_ms: int | None = None) -> None:
        """Commit these offsets, or the position of every partition, and wait for the response."""
        await self._group().commit(self._given(offsets), self._deadline(timeout_ms))

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what `commit()` without offsets commits: how far the records were consumed."""
        return self._out.consumed()

    def commit_async(self, offsets: Offsets | None = None, callback: OnCommit | None = None) -> None:
        """Commit without waiting; `callback(offsets, error)` is called with the result."""
        self._group()
        self._commit_in_background(self._given(offsets), callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; None where there are none."""
        wanted = as_partitions(partitions)
        return await self._group().fetch(wanted, self._deadline(timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return what a producer needs to commit this group's offsets in a transaction."""
        if self._group_id is None:
            raise InvalidGroupIdError("the consumer has no group.id")
        committer = self._committer()
        return ConsumerGroupMetadata(
            self._group_id, committer.generation_or_epoch, committer.member_id, committer.group_instance_id
        )

    def _given(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._out.consumed()
        return {
            as_partition(partition): offset
            if isinstance(offset, OffsetAndMetadata)
            else OffsetAndMetadata(offset)
            for partition, offset in offsets.items()
        }

    def _group(self) -> Commits:
        self._check_open()
        if self._commits is None:
            raise InvalidGroupIdError("set group.id to commit")
        return self._commits

    def _commit_in_background(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: OnCommit | None
    ) -> None:
        task = asyncio.ensure_future(self._commit_and_notify(offsets, callback))
        self._committing.add(task)
        task.add_done_callback(self._committing.discard)

    async def _commit_and_notify(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: OnCommit | None
    ) -> None:
        assert self._commits is not None
        failure: KafkaError | None = None
        try:
            await self._commits.commit(offsets, self._deadline(None))
        except KafkaError as error:
            failure = error
            if callback is None:
                logger.warning("offsets were not committed: %s", error)
        self._out.committed(offsets, failure)
        if callback is not None:
            callback(offsets, failure)

    async def _commit_before_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Auto-commit partitions that are being revoked, so that others do not read their records again."""
        if self._auto_commit_s is None or self._commits is None:
            return
        removed = set(partitions)
        offsets = {
            partition: offset for partition, offset in self._out.consumed().items() if partition in removed
        }
        try:
            await self._commits.commit(offsets, Deadline(self.settings["default.api.timeout.ms"]))
        except KafkaError as error:
            logger.warning("offsets of revoked partitions were not committed: %s", error)
