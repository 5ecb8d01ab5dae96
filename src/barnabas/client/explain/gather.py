"""Collects the facts about a group from the cluster, with an admin client.

Contains the queries and their order; if one is refused, the others continue and the gap is reported.  The
conclusions belong in `rules`.

All queries are read-only.  What the caller may not see, the consumer often may not read either, so refusals
are facts as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from barnabas.base.errors import KafkaError
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.groups.group_model import GroupDescription
from barnabas.client.admin.records import IsolationLevel, OffsetSpec
from barnabas.client.admin.topics import TopicDescription
from barnabas.client.errors.base import AuthorizationError
from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.client.errors.groups import GroupIdNotFoundError
from barnabas.client.explain.decoding import Format
from barnabas.client.explain.facts import Denial, Facts, Group, Member, PartitionFacts
from barnabas.client.explain.permissions import NO_ACL, OURSELVES, denials_by_acls, denials_of_operations
from barnabas.client.explain.queries import end_offsets, min_isr_of, next_faults, open_transactions
from barnabas.client.model import TopicPartition
from barnabas.runtime.clock import SystemClock

DEFAULT_WATCH_MS = 2_000
# A query without a response by then is a fact about the cluster, too.
TIMEOUT_MS = 5_000


class FactCollector:
    """Observes a group twice, some time apart."""

    def __init__(self, admin: Admin, group_id: str, *, principal: str | None, expected: Format) -> None:
        self._admin = admin
        self._group_id = group_id
        self._principal = principal
        self._expected = expected
        self._denials: list[Denial] = []
        self._missing: list[str] = []
        self._unknown: list[str] = []

    async def facts(self, topics: Iterable[str], watch_ms: int) -> Facts:
        group = await self._group()
        committed = await self._committed() if group.state is not None else {}
        named = {*topics, *(entry.topic for entry in committed)}
        named |= {
            partition.topic
            for member in group.members
            for partition in (*member.partitions, *(member.target or ()))
        }
        named |= self._subscribed
        described = await self._describe(sorted(named))
        partitions = await self._observe(described, committed)
        if watch_ms and partitions and group.members:
            partitions = await self._observe_again(partitions, watch_ms)
            group = await self._group()
        if self._principal is not None:
            self._denials += await self._denied_by_acls(sorted(named), group)
        return Facts(
            group=group,
            partitions=tuple(partitions),
            missing_topics=tuple(self._missing),
            denials=tuple(dict.fromkeys(self._denials)),
            now_ms=SystemClock().wall_ms(),
            watched_ms=watch_ms,
            unknown=tuple(self._unknown),
        )

    # -------------------------------------------------------------------------------------------------- group

    async def _group(self) -> Group:
        self._subscribed: set[str] = set()
        outcomes = await self._admin.describe_consumer_groups(
            [self._group_id], include_authorized_operations=True, timeout_ms=TIMEOUT_MS
        )
        error = outcomes.error_of(self._group_id)
        if error is None:
            return self._described(outcomes[self._group_id])
        if isinstance(error, AuthorizationError) and self._principal is None:
            self._deny(f"group {self._group_id}", "READ", error)
        elif not isinstance(error, GroupIdNotFoundError):
            raise error
        return Group(self._group_id, None)

    def _described(self, group_description: GroupDescription) -> Group:
        if self._principal is None:
            self._denials += denials_of_operations(
                f"group {self._group_id}", group_description.authorized_operations
            )
        self._subscribed = {
            topic for member in group_description.members for topic in member.subscribed_topics
        }
        members = tuple(
            Member(
                entry.member_id,
                entry.client_id,
                entry.host.lstrip("/"),
                entry.assignment,
                entry.target_assignment,
            )
            for entry in group_description.members
        )
        return Group(group_description.group_id, group_description.state, group_description.type, members)

    async def _committed(self) -> dict[TopicPartition, int]:
        outcomes = await self._admin.list_consumer_group_offsets(self._group_id, timeout_ms=TIMEOUT_MS)
        error = outcomes.error_of(self._group_id)
        if error is not None:
            self._note(f"committed offsets of {self._group_id}", error)
            return {}
        offsets = outcomes[self._group_id].values_by_key
        return {partition: entry.offset for partition, entry in offsets.items() if entry is not None}

    # --------------------------------------------------------------------------------------------- partitions

    async def _describe(self, topics: list[str]) -> list[TopicDescription]:
        if not topics:
            return []
        outcomes = await self._admin.describe_topics(
            topics, include_authorized_operations=True, timeout_ms=TIMEOUT_MS
        )
        for topic, error in outcomes.errors.items():
            if isinstance(error, AuthorizationError):
                self._deny(f"topic {topic}", "READ", error)
            elif isinstance(error, UnknownTopicOrPartitionError):
                self._missing.append(str(topic))
            else:
                self._note(f"topic {topic}", error)
        described = list(outcomes.values_by_key.values())
        if self._principal is None:
            for entry in described:
                self._denials += denials_of_operations(f"topic {entry.name}", entry.authorized_operations)
        return described

    async def _observe(
        self, described: list[TopicDescription], committed: Mapping[TopicPartition, int]
    ) -> list[PartitionFacts]:
        partitions = [
            PartitionFacts(
                topic_partition=TopicPartition(topic.name, partition.partition),
                leader=partition.leader,
                replicas=partition.replicas,
                isr=partition.isr,
                committed_before=committed.get(TopicPartition(topic.name, partition.partition)),
                committed=committed.get(TopicPartition(topic.name, partition.partition)),
            )
            for topic in described
            for partition in topic.partitions
        ]
        epochs = {
            TopicPartition(topic.name, partition.partition): partition.leader_epoch
            for topic in described
            for partition in topic.partitions
            if partition.leader is not None
        }
        return await self._with_offsets(partitions, epochs)

    async def _with_offsets(
        self, partitions: list[PartitionFacts], epochs: Mapping[TopicPartition, int]
    ) -> list[PartitionFacts]:
        starts, ends, stable, log_ends, min_isr = await asyncio.gather(
            self._offsets(epochs, OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
            self._offsets(epochs, OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
            self._offsets(epochs, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
            end_offsets(self._admin, epochs, TIMEOUT_MS),
            min_isr_of(
                self._admin, {partition.topic_partition.topic for partition in partitions}, TIMEOUT_MS
            ),
        )
        observed = [
            replace(
                partition,
                log_start=starts.get(partition.topic_partition),
                high_watermark=ends.get(partition.topic_partition),
                last_stable=stable.get(partition.topic_partition),
                log_end=log_ends.get(partition.topic_partition, ends.get(partition.topic_partition)),
                min_isr=min_isr.get(partition.topic_partition.topic),
            )
            for partition in partitions
        ]
        held = [
            entry.topic_partition
            for entry in observed
            if (entry.last_stable or 0) < (entry.high_watermark or 0)
        ]
        transactions = await open_transactions(self._admin, held, TIMEOUT_MS)
        faults = await next_faults(self._admin, observed, self._expected)
        return [
            replace(
                entry,
                transactions=transactions.get(entry.topic_partition, ()),
                next_fault=faults.get(entry.topic_partition),
            )
            for entry in observed
        ]

    async def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        specs = dict.fromkeys(partitions, spec)
        if not specs:
            return {}
        outcomes = await self._admin.list_offsets(specs, isolation_level=isolation, timeout_ms=TIMEOUT_MS)
        for partition, error in outcomes.errors.items():
            if isinstance(error, AuthorizationError):
                self._deny(f"topic {partition.topic}", "READ", error)
            else:
                self._note(f"offsets of {partition}", error)
        return {partition: entry.offset for partition, entry in outcomes.values_by_key.items()}

    async def _observe_again(self, partitions: list[PartitionFacts], watch_ms: int) -> list[PartitionFacts]:
        """Observe committed offsets again: only partitions without progress are stuck."""
        await asyncio.sleep(watch_ms / 1_000)
        committed = await self._committed()
        return [
            replace(partition, committed=committed.get(partition.topic_partition, partition.committed))
            for partition in partitions
        ]

    # ------------------------------------------------------------------------------------------ authorization

    async def _denied_by_acls(self, topics: list[str], group: Group) -> list[Denial]:
        assert self._principal is not None
        has_members = bool(group.members)
        resources = [("topic", topic) for topic in topics] + [("group", self._group_id)]
        try:
            denials = await denials_by_acls(self._admin, self._principal, resources, TIMEOUT_MS)
            # A group with members shows that brokers allow what no ACL covers.
            return [entry for entry in denials if entry.reason != NO_ACL or not has_members]
        except KafkaError as error:
            self._note(f"ACLs of {self._principal}", error)
            return []

    def _deny(self, resource: str, operation: str, error: KafkaError) -> None:
        """Record a refusal; for another principal's consumer our own permissions mean nothing."""
        if self._principal is not None:
            self._note(resource, error)
            return
        self._denials.append(Denial(resource, operation, OURSELVES, error.message))

    def _note(self, what: str, error: KafkaError) -> None:
        self._unknown.append(f"{what}: {error.message}")


async def gather(
    admin: Admin,
    group_id: str,
    *,
    topics: Iterable[str] = (),
    watch_ms: int = DEFAULT_WATCH_MS,
    principal: str | None = None,
    expected: Format = Format.GUESS,
) -> Facts:
    """Collect the facts about a group; `topics` are those that it should read, if it has not joined or
    committed.

    `watch_ms` is the time between the two observations; `principal` is the consumer's, whose ACLs are
    evaluated instead of the caller's permissions; `expected` is the format of the values.
    """
    gathering = FactCollector(admin, group_id, principal=principal, expected=expected)
    return await gathering.facts(topics, watch_ms)
