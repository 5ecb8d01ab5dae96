"""A consumer group for tests: its members, its offsets, and waiting for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.base.lag import lag
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.errors.groups import GroupIdNotFoundError
from barnabas.client.model import TopicPartition
from barnabas.testing.kit.diagnosis.causes import why_group_is_stuck
from barnabas.testing.kit.waiting import DEFAULT_TIMEOUT_S, wait_for

if TYPE_CHECKING:
    from barnabas.client.admin.groups.group_model import GroupDescription
    from barnabas.testing.kit.topics.topics import Topic, Topics

STABLE, EMPTY, NO_GROUP = "Stable", "Empty", "Dead"


class Group:
    """One consumer group, by its `id`, whether it exists already or not."""

    def __init__(self, topics: Topics, group_id: str) -> None:
        self.id = group_id
        self._topics = topics

    @property
    def state(self) -> str:
        """As Apache Kafka writes it: Stable, Empty, PreparingRebalance and so on; Dead if there is none."""
        described = self._described()
        return NO_GROUP if described is None else described.state

    @property
    def assignment(self) -> dict[str, frozenset[TopicPartition]]:
        """The partitions of each member, by member id."""
        described = self._described()
        members = () if described is None else described.members
        return {member.member_id: member.assignment for member in members}

    def offsets(self) -> dict[TopicPartition, int]:
        """What is committed."""
        outcomes = self._topics.admin.list_consumer_group_offsets(self.id)
        error = outcomes.error_of(self.id)
        if error is not None:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            raise error
        entries = outcomes[self.id].values_by_key
        return {place: entry.offset for place, entry in entries.items() if entry is not None}

    def lags(self, *topics: Topic | str) -> dict[TopicPartition, int]:
        """The records of each partition that are not committed yet.

        Without `topics`, those that members are subscribed to, or that something is committed for.
        """
        committed = self.offsets()
        names = {topic if isinstance(topic, str) else topic.name for topic in topics}
        places = self._places(names or self._read_topics(committed))
        admin = self._topics.admin
        starts = admin.list_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST)).raise_first()
        ends = admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST)).raise_first()
        return {
            place: lag(committed.get(place, 0), starts[place].offset, ends[place].offset) for place in places
        }

    def lag(self, *topics: Topic | str) -> int:
        """All of `lags` together."""
        return sum(self.lags(*topics).values())

    def is_settled(self) -> bool:
        """Whether no rebalance is going on: every member has what it is to have."""
        described = self._described()
        if described is None or described.state not in (STABLE, EMPTY):
            return False
        return all(
            member.target_assignment is None or member.target_assignment == member.assignment
            for member in described.members
        )

    def wait_settled(self, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Until the group exists, and no rebalance is going on."""
        self._wait(self.is_settled, "is not settled", timeout)

    def wait_assigned(
        self, *topics: Topic | str, members: int | None = None, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Until every partition of the topics that it reads has a member, and there are so many members."""
        self._wait(
            lambda: self._is_assigned(topics, members), "does not have its partitions", timeout, topics
        )

    def wait_caught_up(self, *topics: Topic | str, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Until everything that is in its topics is committed."""
        self._wait(lambda: self._is_caught_up(topics), "has not caught up", timeout, topics)

    def _is_assigned(self, topics: Iterable[Topic | str], members: int | None) -> bool:
        described = self._described()
        if described is None or described.state != STABLE or not described.members:
            return False
        if members is not None and len(described.members) != members:
            return False
        names = {topic if isinstance(topic, str) else topic.name for topic in topics}
        owned = {place for member in described.members for place in member.assignment}
        wanted = set(self._places(names or {place.topic for place in owned}))
        return bool(wanted) and wanted <= owned and self.is_settled()

    def _is_caught_up(self, topics: Iterable[Topic | str]) -> bool:
        if self._described() is None:
            return False
        lags = self.lags(*topics)
        return bool(lags) and not any(lags.values())

    def _wait(
        self, condition: Callable[[], bool], what: str, timeout: float, topics: Iterable[Topic | str] = ()
    ) -> None:
        names = [topic if isinstance(topic, str) else topic.name for topic in topics]
        wait_for(
            condition,
            timeout,
            what=f"the group {self.id} {what}",
            why=lambda: why_group_is_stuck(self._topics, self.id, names),
        )

    def _described(self) -> GroupDescription | None:
        outcomes = self._topics.admin.describe_consumer_groups([self.id])
        error = outcomes.error_of(self.id)
        if error is None:
            described = outcomes[self.id]
            return None if described.state == NO_GROUP else described
        if isinstance(error, GroupIdNotFoundError):
            return None
        raise error

    def _read_topics(self, committed: Iterable[TopicPartition]) -> set[str]:
        described = self._described()
        members = () if described is None else described.members
        names = {place.topic for place in committed}
        for member in members:
            names |= {place.topic for place in member.assignment} | set(member.subscribed_topics)
        return names

    def _places(self, names: Iterable[str]) -> list[TopicPartition]:
        described = self._topics.admin.describe_topics(sorted(names)).values_by_key if names else {}
        return [
            TopicPartition(name, partition.partition)
            for name, topic in zip(map(str, described), described.values(), strict=True)
            for partition in topic.partitions
        ]

    def __repr__(self) -> str:
        return f"<group {self.id}>"
