"""How far a consumer is: commits, by hand and automatic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from barnabas.base.errors import KafkaError
from barnabas.client.consumer.offsets.commits import Commits
from barnabas.client.consumer.parts import ConsumerParts
from barnabas.client.errors.groups import InvalidGroupIdError
from barnabas.client.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from barnabas.client.waiting import Deadline

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]


class Committing(ConsumerParts):
    async def commit(self, offsets: Offsets | None = None, *, timeout_ms: int | None = None) -> None:
        """Commit these offsets, or the position in every partition; waits until it is done."""
        await self._group().commit(self._given(offsets), self._deadline(timeout_ms))

    def commit_async(self, offsets: Offsets | None = None, callback: OnCommit | None = None) -> None:
        """The same without waiting; `callback(offsets, error)` hears of it."""
        self._group()
        self._commit_in_background(self._given(offsets), callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where there is nothing."""
        wanted = [TopicPartition(*one) for one in partitions]
        return await self._group().fetch(wanted, self._deadline(timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For a producer that commits these offsets in its transaction."""
        if self._group_id is None:
            raise InvalidGroupIdError("the consumer has no group.id")
        who = self._committer()
        return ConsumerGroupMetadata(
            self._group_id, who.generation_or_epoch, who.member_id, who.group_instance_id
        )

    def _given(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._out.consumed()
        return {
            TopicPartition(*where): offset
            if isinstance(offset, OffsetAndMetadata)
            else OffsetAndMetadata(offset)
            for where, offset in offsets.items()
        }

    def _group(self) -> Commits:
        self._check_open()
        if self._commits is None:
            raise InvalidGroupIdError("set group.id to commit")
        return self._commits

    def _commit_in_background(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: OnCommit | None
    ) -> None:
        task = asyncio.ensure_future(self._commit_and_tell(offsets, callback))
        self._committing.add(task)
        task.add_done_callback(self._committing.discard)

    async def _commit_and_tell(
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

    async def _commit_before_handover(self, partitions: Iterable[TopicPartition]) -> None:
        """What was read of partitions that go to others, so that they need not read it again."""
        if self._auto_commit_s is None or self._commits is None:
            return
        removed = set(partitions)
        offsets = {where: offset for where, offset in self._out.consumed().items() if where in removed}
        try:
            await self._commits.commit(offsets, Deadline(self.settings["default.api.timeout.ms"]))
        except KafkaError as error:
            logger.warning("offsets were not committed before their partitions went to others: %s", error)
