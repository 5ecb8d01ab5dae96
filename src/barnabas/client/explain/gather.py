"""The facts about a group, asked of the cluster with an admin client.

What lives here: which questions, in which order, and what to do where an answer is refused (go on, and say
what is not known).  What may not: what the facts mean.

Everything here only looks.  What it may not look at, the consumer often may not read either, so refusals
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
from barnabas.client.errors.data import UnknownTopicOrPartitionError
from barnabas.client.errors.groups import GroupIdNotFoundError
from barnabas.client.errors.kinds import AuthorizationError
from barnabas.client.explain.decoding import Format
from barnabas.client.explain.facts import Denial, Facts, Group, Member, PartitionFacts
from barnabas.client.explain.looking import end_offsets, min_isr_of, next_faults, open_transactions
from barnabas.client.explain.permissions import NO_RULE, OURSELVES, denials_by_rules, denials_of_operations
from barnabas.client.model import TopicPartition
from barnabas.runtime.clock import SystemClock

DEFAULT_WATCH_MS = 2_000
# A question that is not answered by then is a fact about the cluster, too.
PATIENCE_MS = 5_000


class Gathering:
    """One look at a group, and a second one some time later."""

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
        named = {*topics, *(one.topic for one in committed)}
        named |= {
            where.topic for member in group.members for where in (*member.partitions, *(member.target or ()))
        }
        named |= self._subscribed
        described = await self._describe(sorted(named))
        partitions = await self._look(described, committed)
        if watch_ms and partitions and group.members:
            partitions = await self._look_again(partitions, watch_ms)
            group = await self._group()
        if self._principal is not None:
            self._denials += await self._judged(sorted(named), group)
        return Facts(
            group=group,
            partitions=tuple(partitions),
            missing_topics=tuple(self._missing),
            denials=tuple(dict.fromkeys(self._denials)),
            now_ms=SystemClock().wall_ms(),
            watched_ms=watch_ms,
            unknown=tuple(self._unknown),
        )

    # ---------------------------------------------------------------------------------------------- the group

    async def _group(self) -> Group:
        self._subscribed: set[str] = set()
        found = await self._admin.describe_consumer_groups(
            [self._group_id], include_authorized_operations=True, timeout_ms=PATIENCE_MS
        )
        error = found.error_of(self._group_id)
        if error is None:
            return self._described(found[self._group_id])
        if isinstance(error, AuthorizationError) and self._principal is None:
            self._deny(f"group {self._group_id}", "READ", error)
        elif not isinstance(error, GroupIdNotFoundError):
            raise error
        return Group(self._group_id, None)

    def _described(self, told: GroupDescription) -> Group:
        if self._principal is None:
            self._denials += denials_of_operations(f"group {self._group_id}", told.authorized_operations)
        self._subscribed = {topic for member in told.members for topic in member.subscribed_topics}
        members = tuple(
            Member(one.member_id, one.client_id, one.host.lstrip("/"), one.assignment, one.target_assignment)
            for one in told.members
        )
        return Group(told.group_id, told.state, told.type, members)

    async def _committed(self) -> dict[TopicPartition, int]:
        found = await self._admin.list_consumer_group_offsets(self._group_id, timeout_ms=PATIENCE_MS)
        error = found.error_of(self._group_id)
        if error is not None:
            self._note(f"committed offsets of {self._group_id}", error)
            return {}
        offsets = found[self._group_id].values_by_key
        return {where: one.offset for where, one in offsets.items() if one is not None}

    # ----------------------------------------------------------------------------------------- its partitions

    async def _describe(self, topics: list[str]) -> list[TopicDescription]:
        if not topics:
            return []
        found = await self._admin.describe_topics(
            topics, include_authorized_operations=True, timeout_ms=PATIENCE_MS
        )
        for topic, error in found.errors.items():
            if isinstance(error, AuthorizationError):
                self._deny(f"topic {topic}", "READ", error)
            elif isinstance(error, UnknownTopicOrPartitionError):
                self._missing.append(str(topic))
            else:
                self._note(f"topic {topic}", error)
        described = list(found.values_by_key.values())
        if self._principal is None:
            for one in described:
                self._denials += denials_of_operations(f"topic {one.name}", one.authorized_operations)
        return described

    async def _look(
        self, described: list[TopicDescription], committed: Mapping[TopicPartition, int]
    ) -> list[PartitionFacts]:
        found = [
            PartitionFacts(
                where=TopicPartition(topic.name, one.partition),
                leader=one.leader,
                replicas=one.replicas,
                isr=one.isr,
                committed_before=committed.get(TopicPartition(topic.name, one.partition)),
                committed=committed.get(TopicPartition(topic.name, one.partition)),
            )
            for topic in described
            for one in topic.partitions
        ]
        epochs = {
            TopicPartition(topic.name, one.partition): one.leader_epoch
            for topic in described
            for one in topic.partitions
            if one.leader is not None
        }
        return await self._with_offsets(found, epochs)

    async def _with_offsets(
        self, partitions: list[PartitionFacts], epochs: Mapping[TopicPartition, int]
    ) -> list[PartitionFacts]:
        starts, ends, stable, log_ends, min_isr = await asyncio.gather(
            self._offsets(epochs, OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
            self._offsets(epochs, OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
            self._offsets(epochs, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
            end_offsets(self._admin, epochs, PATIENCE_MS),
            min_isr_of(self._admin, {one.where.topic for one in partitions}, PATIENCE_MS),
        )
        found = [
            replace(
                one,
                log_start=starts.get(one.where),
                high_watermark=ends.get(one.where),
                last_stable=stable.get(one.where),
                log_end=log_ends.get(one.where, ends.get(one.where)),
                min_isr=min_isr.get(one.where.topic),
            )
            for one in partitions
        ]
        held = [one.where for one in found if (one.last_stable or 0) < (one.high_watermark or 0)]
        transactions = await open_transactions(self._admin, held, PATIENCE_MS)
        faults = await next_faults(self._admin, found, self._expected)
        return [
            replace(one, transactions=transactions.get(one.where, ()), next_fault=faults.get(one.where))
            for one in found
        ]

    async def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, spec)
        if not asked:
            return {}
        found = await self._admin.list_offsets(asked, isolation_level=isolation, timeout_ms=PATIENCE_MS)
        for where, error in found.errors.items():
            if isinstance(error, AuthorizationError):
                self._deny(f"topic {where.topic}", "READ", error)
            else:
                self._note(f"offsets of {where}", error)
        return {where: one.offset for where, one in found.values_by_key.items()}

    async def _look_again(self, partitions: list[PartitionFacts], watch_ms: int) -> list[PartitionFacts]:
        """Only those that stand still are stuck."""
        await asyncio.sleep(watch_ms / 1_000)
        committed = await self._committed()
        return [replace(one, committed=committed.get(one.where, one.committed)) for one in partitions]

    # ------------------------------------------------------------------------------------------- what is
    # refused

    async def _judged(self, topics: list[str], group: Group) -> list[Denial]:
        assert self._principal is not None
        is_let_in = bool(group.members)
        resources = [("topic", topic) for topic in topics] + [("group", self._group_id)]
        try:
            found = await denials_by_rules(self._admin, self._principal, resources, PATIENCE_MS)
            # Where there are members, somebody may join: brokers do allow what no rule is about.
            return [one for one in found if one.reason != NO_RULE or not is_let_in]
        except KafkaError as error:
            self._note(f"rules about {self._principal}", error)
            return []

    def _deny(self, resource: str, operation: str, error: KafkaError) -> None:
        """We may not look; if the consumer is somebody else, that says nothing about it."""
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
    """The facts about a group; `topics` are those that it should read, if it has not joined or committed yet.

    `watch_ms` lie between the two looks that tell who moves; `principal` is the consumer's, whose
    permissions are looked up instead of those of whoever asks; `expected` is what values are.
    """
    gathering = Gathering(admin, group_id, principal=principal, expected=expected)
    return await gathering.facts(topics, watch_ms)
