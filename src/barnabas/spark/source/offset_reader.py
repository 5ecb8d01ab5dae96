"""Offset bounds of partitions, offsets by timestamp and committed offsets, with retries.

Conclusions belong in `planning`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
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
    """Partitions that `assign` names do not exist (yet)."""

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        super().__init__(listed(partitions))


class OffsetReader:
    """A planner's blocking queries to brokers."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        settings = clients.consumer_settings(options.client)
        committed_only = settings["isolation.level"] == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        self._admin: Admin | None = None
        # What was already logged: a stream queries its partitions repeatedly.
        self._passed_over: frozenset[TopicPartition] = frozenset()
        # The ids of the topics that `partitions` has found.
        self.topic_ids: dict[str, str] = {}

    def close(self) -> None:
        if self._admin is not None:
            clients.run(self._admin.close())
            self._admin = None

    # --------------------------------------------------------------------------------------------- partitions

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that the options currently select."""
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
                    f"{name} is an internal topic: leave it out, or read a broker's folder by "
                    'format("barnabas-log")'
                )
            if topic.id != ZERO_UUID:  # Brokers before Apache Kafka 2.8 know no ids.
                self.topic_ids[str(name)] = str(topic.id)
            results.update(TopicPartition(str(name), partition.partition) for partition in topic.partitions)
        return results

    def _check_assigned(self, missing: frozenset[TopicPartition]) -> None:
        """Spark's own connector skips them silently; here that is optional."""
        if missing and self._options.fail_on_data_loss:
            raise _MissingPartitions(missing)
        if not missing <= self._passed_over:
            logger.warning(
                "assign names %s, which do not exist; continuing without, as failOnDataLoss is false",
                listed(missing),
            )
        self._passed_over = missing

    # ------------------------------------------------------------------------------------------------ offsets

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._listed(dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> PartitionOffsets:
        """Return the end offsets.  An end before a `known` offset may come from a new leader that does not
        know its high watermark yet, so it is requested again."""
        requested = dict.fromkeys(partitions, OffsetSpec.LATEST)

        async def query(admin: Admin) -> PartitionOffsets:
            attempts = self._options.offset_attempts
            while True:
                ends = await self._list(admin, requested)
                attempts -= 1
                behind = known is not None and any(
                    known.get(partition, 0) > offset for partition, offset in ends.items()
                )
                if not behind or attempts <= 0:
                    return ends
                await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)

        return self._wait(query)

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after the timestamp of its partition; None if there is none."""
        offsets = self._listed(dict(times))
        return {partition: None if offset < 0 else offset for partition, offset in offsets.items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the committed offsets of the group."""
        group_id = self._options.group_id or ""
        requested = list(partitions)

        async def query(admin: Admin) -> dict[TopicPartition, int | None]:
            offsets = (await admin.list_consumer_group_offsets({group_id: requested}))[group_id].raise_first()
            return {
                partition: None if committed is None else committed.offset
                for partition, committed in offsets.items()
            }

        return self._wait(query)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the query's progress, so that every tool can show its lag."""
        group_id = self._options.group_id
        if group_id is None or not offsets:
            return
        wanted = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}

        async def commit(admin: Admin) -> None:
            (await admin.alter_consumer_group_offsets(group_id, wanted)).raise_first()

        try:
            self._wait(commit)
        except KafkaError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
                raise OptionError(
                    f"groupId {group_id} has consumers of its own, so the query cannot commit for it; "
                    "give the query another groupId"
                ) from error
            if not error.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            # The checkpoint has the progress; the next commit includes it.
            logger.warning("the offsets of group %s were not committed: %s", group_id, error)

    # ----------------------------------------------------------------------------------------------- requests

    def _listed(self, wanted: Mapping[TopicPartition, OffsetSpec | int]) -> PartitionOffsets:
        return self._wait(lambda admin: self._list(admin, wanted)) if wanted else {}

    async def _list(
        self, admin: Admin, wanted: Mapping[TopicPartition, OffsetSpec | int]
    ) -> PartitionOffsets:
        response = await admin.list_offsets(wanted, isolation_level=self._isolation)
        return {partition: listed.offset for partition, listed in response.raise_first().items()}

    def _wait(self, query: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        return clients.run(self._attempts(query))

    async def _attempts(self, query: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        """Topics and partitions may change meanwhile: retry as often as fetchOffset.numRetries says."""
        left = self._options.offset_attempts
        while True:
            if self._admin is None:
                self._admin = clients.new_admin(self._options.client)
            try:
                return await query(self._admin)
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
            "topic; to continue without, set the option failOnDataLoss to false"
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
