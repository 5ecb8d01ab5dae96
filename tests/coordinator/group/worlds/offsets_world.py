"""A group shard for tests of offsets."""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.decision import Context, Decision, Marker
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.commit import commit, commit_in_transaction
from barnabas.coordinator.group.offsets.delete import delete
from barnabas.coordinator.group.offsets.fetch import fetch
from barnabas.coordinator.group.table import Group, GroupKind, OffsetExpiration
from barnabas.metadata.features import METADATA_VERSION, metadata_version_named
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.coordinator.shard_world import PENDING, ShardWorld, value_of

NEWEST = metadata_version_named("4.1-IV1").level
Commits = dict[str, dict[int, int]]


class StubGroup(Group):
    """A group of any kind whose results the test chooses."""

    kind = GroupKind.CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.refusal: KafkaError | None = None
        self.subscribed: set[str] = set()
        self.counts_from: OffsetExpiration | None = lambda committed_ms: committed_ms
        self.members = 0
        self.validated: list[object] = []

    @property
    def state_name(self) -> str:
        return "Empty" if self.is_empty else "Stable"

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return self.members == 0

    @property
    def member_count(self) -> int:
        return self.members

    def has_member(self, member_id: str) -> bool:
        return False

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        api_version: int,
    ) -> None:
        self.validated.append((member_id, instance_id, generation, transactional, api_version))
        self._refuse()

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self.validated.append((member_id, member_epoch))
        self._refuse()

    def validate_offset_delete(self) -> None:
        self._refuse()

    def validate_delete(self) -> None:
        self._refuse()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def tombstones(self) -> list[Entry]:
        return []

    def offset_expiration(self) -> OffsetExpiration | None:
        return self.counts_from

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise self.refusal


class OffsetsWorld(ShardWorld[GroupMachine]):
    """Short requests; responses as topic -> partition -> result."""

    def __init__(self, **settings: str) -> None:
        super().__init__(
            lambda: GroupMachine(0), {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.with_image(features=self.image.features.set(METADATA_VERSION, NEWEST))

    def put_stub(self, group_id: str) -> StubGroup:
        stub = StubGroup(group_id)
        self.machine.table.put(stub)
        return stub

    def commit(
        self, group: str, commits: Commits, version: int = 9, text: str | None = "", **more: Any
    ) -> Any:
        request = OffsetCommitRequest(
            group_id=group,
            member_id=more.pop("member_id", ""),
            topics=[
                OffsetCommitRequest.Topic(
                    name=topic,
                    topic_id=more.get("topic_ids", {}).get(topic, bytes(16)),
                    partitions=[
                        OffsetCommitRequest.Partition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=more.get("epoch", -1),
                            committed_metadata=text,
                        )
                        for index, offset in partitions.items()
                    ],
                )
                for topic, partitions in commits.items()
            ],
            **{name: value for name, value in more.items() if name not in ("topic_ids", "epoch")},
        )

        def decide(machine: GroupMachine, context: Context) -> Decision[Any]:
            return commit(machine.offsets, request, version, context)

        return _codes(value_of(self.ask(decide)))

    def commit_in_transaction(
        self, group: str, commits: Commits, producer: int = 1, version: int = 5, text: str = "", **more: Any
    ) -> Any:
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=group,
            producer_id=producer,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.Partition(
                            partition_index=index, committed_offset=offset, committed_metadata=text
                        )
                        for index, offset in partitions.items()
                    ],
                )
                for topic, partitions in commits.items()
            ],
            **more,
        )

        def decide(machine: GroupMachine, context: Context) -> Decision[Any]:
            return commit_in_transaction(machine.offsets, request, version, context)

        return _codes(value_of(self.ask(decide)))

    def end(self, producer: int = 1, *, committed: bool) -> None:
        marker = Marker(producer, 0, 0, committed)
        assert value_of(self.ask(lambda machine, context: Decision((), None, marker=marker))) is None

    def fetch(
        self, group: str, topics: dict[str, list[int]] | None = None, *, stable: bool = False, **member: Any
    ) -> Any:
        """Topic -> partition -> offset or error code."""
        ids = member.pop("topic_ids", {})
        requested = None
        if topics is not None:
            requested = [
                OffsetFetchRequest.Topics(
                    name=name, topic_id=ids.get(name, bytes(16)), partition_indexes=partitions
                )
                for name, partitions in topics.items()
            ]
        request = OffsetFetchRequest.Group(group_id=group, topics=requested, **member)
        reply = value_of(
            self.ask(lambda machine, context: fetch(machine.offsets, request, require_stable=stable))
        )
        if isinstance(reply, BaseException) or reply is PENDING:
            return reply
        assert (reply.group_id, reply.error_code) == (group, 0)
        return {
            topic.name: {
                partition.partition_index: ErrorCode(partition.error_code)
                if partition.error_code
                else partition.committed_offset
                for partition in topic.partitions
            }
            for topic in reply.topics
        }

    def delete(self, group: str, topics: dict[str, list[int]]) -> Any:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequest.Topic(
                    name=name,
                    partitions=[
                        OffsetDeleteRequest.Partition(partition_index=partition) for partition in partitions
                    ],
                )
                for name, partitions in topics.items()
            ],
        )
        return _codes(value_of(self.ask(lambda machine, context: delete(machine.offsets, request, context))))


def _codes(reply: Any) -> Any:
    if isinstance(reply, BaseException) or not hasattr(reply, "topics"):
        return reply
    assert reply.throttle_time_ms == 0, "the broker throttles, not the coordinator"
    assert getattr(reply, "error_code", 0) == 0
    return {
        topic.name: {
            partition.partition_index: ErrorCode(partition.error_code) for partition in topic.partitions
        }
        for topic in reply.topics
    }
