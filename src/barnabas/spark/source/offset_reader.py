"""Where partitions begin and end, and where times and groups are in them, as the brokers say.

What lives here: asking, and asking again.  What may not: what follows from the answers (planning).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.records import IsolationLevel, OffsetSpec
from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.client.model import OffsetAndMetadata, TopicPartition
from barnabas.spark.given_options import OptionError
from barnabas.spark.source import clients
from barnabas.spark.source.offsets import PartitionOffsets, listed
from barnabas.spark.source.options import Assign, SourceOptions, Subscribe

T = TypeVar("T")

logger = logging.getLogger(__name__)


class _MissingPartitions(Exception):
    """Some that `assign` names are not there, or not yet."""

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        super().__init__(listed(partitions))


class OffsetReader:
    """What a planner asks of brokers; it waits for every answer."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        settings = clients.consumer_settings(options.client)
        committed_only = settings["isolation.level"] == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        self._admin: Admin | None = None
        # What the log has been told of: a stream asks for its partitions again and again.
        self._passed_over: frozenset[TopicPartition] = frozenset()

    def close(self) -> None:
        if self._admin is not None:
            clients.run(self._admin.close())
            self._admin = None

    # -------------------------------------------------------------------------------------- the partitions

    def partitions(self) -> set[TopicPartition]:
        """The partitions that the options choose, as they are now."""
        return self._wait(self._partitions)

    async def _partitions(self, admin: Admin) -> set[TopicPartition]:
        selection = self._options.selection
        if isinstance(selection, Assign):
            there = await self._partitions_of(
                admin, sorted({partition.topic for partition in selection.partitions})
            )
            self._check_assigned(frozenset(selection.partitions) - there)
            return there.intersection(selection.partitions)
        if isinstance(selection, Subscribe):
            return await self._partitions_of(admin, selection.topics)
        pattern = re.compile(selection.pattern)
        names = [name for name in await admin.list_topics() if pattern.search(name)]
        return await self._partitions_of(admin, names)

    async def _partitions_of(self, admin: Admin, topics: Iterable[str]) -> set[TopicPartition]:
        results: set[TopicPartition] = set()
        for name, topic in (await admin.describe_topics(topics)).raise_first().items():
            if topic.is_internal:
                raise OptionError(
                    f"{name} is a topic of the brokers' own: leave it out, or read a broker's folder by "
                    'format("barnabas-log")'
                )
            results.update(TopicPartition(str(name), partition.partition) for partition in topic.partitions)
        return results

    def _check_assigned(self, missing: frozenset[TopicPartition]) -> None:
        """Spark's own connector passes over them without a word; here that is a choice."""
        if missing and self._options.fail_on_data_loss:
            raise _MissingPartitions(missing)
        if not missing <= self._passed_over:
            logger.warning(
                "assign names %s, which are not there; going on without, as failOnDataLoss is false",
                listed(missing),
            )
        self._passed_over = missing

    # ----------------------------------------------------------------------------------------- the offsets

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._listed(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> PartitionOffsets:
        """The ends.  One before an offset that is `known` to have been there may be a leader that has not
        heard of its high watermark yet, so it is asked for again."""
        asked = dict.fromkeys(partitions, OffsetSpec.LATEST)

        async def look(admin: Admin) -> PartitionOffsets:
            attempts = self._options.offset_attempts
            while True:
                found = await self._list(admin, asked)
                attempts -= 1
                behind = known is not None and any(
                    known.get(partition, 0) > offset for partition, offset in found.items()
                )
                if not behind or attempts <= 0:
                    return found
                await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)

        return self._wait(look)

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset that is not older than the time of its partition; None where there is none."""
        found = self._listed(dict(times))
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Where the group has got to."""
        group_id = self._options.group_id or ""
        asked = list(partitions)

        async def look(admin: Admin) -> dict[TopicPartition, int | None]:
            told = (await admin.list_consumer_group_offsets({group_id: asked}))[group_id].raise_first()
            return {partition: None if one is None else one.offset for partition, one in told.items()}

        return self._wait(look)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the group's coordinator how far the query is, so that every tool can show its lag."""
        group_id = self._options.group_id
        if group_id is None or not offsets:
            return
        wanted = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}

        async def tell(admin: Admin) -> None:
            (await admin.alter_consumer_group_offsets(group_id, wanted)).raise_first()

        try:
            self._wait(tell)
        except KafkaError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
                raise OptionError(
                    f"groupId {group_id} has consumers of its own, so the query cannot commit for it; "
                    "give the query another groupId"
                ) from error
            if not error.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            # The checkpoint has the progress; the next commit tells all of it.
            logger.warning("the offsets of group %s were not committed: %s", group_id, error)

    # ------------------------------------------------------------------------------------------- how asked

    def _listed(self, wanted: Mapping[TopicPartition, OffsetSpec | int]) -> PartitionOffsets:
        return self._wait(lambda admin: self._list(admin, wanted)) if wanted else {}

    async def _list(
        self, admin: Admin, wanted: Mapping[TopicPartition, OffsetSpec | int]
    ) -> PartitionOffsets:
        response = await admin.list_offsets(wanted, isolation_level=self._isolation)
        return {partition: one.offset for partition, one in response.raise_first().items()}

    def _wait(self, send: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        return clients.run(self._attempts(send))

    async def _attempts(self, send: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        """Topics and partitions come and go meanwhile: ask again, as often as fetchOffset.numRetries says."""
        left = self._options.offset_attempts
        while True:
            if self._admin is None:
                self._admin = clients.new_admin(self._options.client)
            try:
                return await send(self._admin)
            except (UnknownTopicOrPartitionError, _MissingPartitions) as error:
                left -= 1
                if left <= 0:
                    raise _unknown(self._options, error) from error
            await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)


def _unknown(options: SourceOptions, error: Exception) -> OptionError:
    selection, servers = options.selection, options.client["bootstrap.servers"]
    if isinstance(error, _MissingPartitions):
        return OptionError(
            f"option assign: {error} is not known to {servers}: correct the option, or add partitions to the "
            "topic; to go on without, set the option failOnDataLoss to false"
        )
    if isinstance(selection, Subscribe):
        named = ", ".join(selection.topics)
    elif isinstance(selection, Assign):
        named = ", ".join(sorted({partition.topic for partition in selection.partitions}))
    else:
        named = selection.pattern
    return OptionError(
        f"a topic of {named} is not known to {servers} (any more): create it, or correct the option"
    )
